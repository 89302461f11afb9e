"""Where a person's credentials and histories are: confined programs cannot read them unless the settings say so. Pure.

`~/.npmrc`, `~/.config/pip` and similar files are not here: package managers do not start without them. A rule such as
`Read(~/.npmrc)` hides them too.
"""

HOME = (
    *(".ssh", ".gnupg", ".netrc", ".authinfo", ".authinfo.gpg", ".git-credentials", ".config/git/credentials"),
    *(".aws", ".azure", ".boto", ".s3cfg", ".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub"),
    *(
        ".docker",
        ".kube",
        ".config/containers/auth.json",
        ".config/helm/registry",
        ".terraform.d/credentials.tfrc.json",
    ),
    *(".config/doctl", ".config/rclone", ".config/op", ".config/sops", ".vault-token", ".fly", ".oci", ".ibmcloud"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".pypirc", ".m2/settings-security.xml"),
    *(
        ".password-store",
        ".local/share/keyrings",
        ".local/share/kwalletd",
        ".pki",
        ".pgpass",
        ".my.cnf",
        ".mylogin.cnf",
    ),
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/opera", ".config/vivaldi", "snap/firefox", "snap/chromium"),
    *(".bash_history", ".zsh_history", ".zhistory", ".history", ".sh_history", ".local/share/fish/fish_history"),
    *(".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".lesshst"),
    *(".rediscli_history", ".irb_history", ".viminfo", ".local/share/xonsh"),
    *(".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".gemini/google_accounts.json"),
    *(".qwen/oauth_creds.json", ".local/share/opencode/auth.json", ".config/github-copilot", ".copilot"),
    *(".config/goose/secrets.yaml", ".config/amp", ".local/share/amp/secrets.json", ".config/cursor/auth.json"),
    *(".factory/auth.json", ".aider.conf.yml", ".continue/config.json"),
)
"""In a home directory. The last three lines are other agents'; a driven agent has its own places anyway."""
VARIABLES = (
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AZURE_CONFIG_DIR", "BOTO_CONFIG", "CLOUDSDK_CONFIG"),
    *("DOCKER_CONFIG", "GH_CONFIG_DIR", "GNUPGHOME", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "NETRC"),
    *("PASSWORD_STORE_DIR", "PGPASSFILE", "HISTFILE", "REGISTRY_AUTH_FILE"),
)
"""Variables that name such a file or directory, or several with colons between."""
