"""Model providers: three HTTP wire formats over one client, and the scripted one."""
