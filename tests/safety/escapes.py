"""Ways out of a sandbox, each a command that prints GOT when it has found one. They open, and do not write, what is
the machine's own: a hole would otherwise change it."""

PY = "python3 -I -S -c '{}' && echo GOT"

WRITES = [
    f"echo x > {path} && echo GOT" for path in ("OUT/file", "OUT/new", "/etc/treadle-x", "/usr/treadle-x", "/treadle-x")
]
WRITES += [
    *(
        "touch OUT/file && echo GOT",
        "chmod 777 OUT/file && echo GOT",
        "rm -f OUT/file && echo GOT",
        "mv OUT/file OUT/f2 && echo GOT",
    ),
    *(
        "mkdir OUT/d && echo GOT",
        "ln OUT/file hard && echo GOT",
        "ln -s x OUT/link && echo GOT",
        "truncate -s0 OUT/file && echo GOT",
    ),
    *(
        "(exec 9>> OUT/file) && echo GOT",
        "(exec 9<> OUT/file) && echo GOT",
        "setfattr -n user.x -v y OUT/file && echo GOT",
    ),
    *(
        "ln -s OUT here && echo x > here/new && echo GOT",
        "cd OUT && echo x > new && echo GOT",
        "cp -r . OUT/copy && echo GOT",
    ),
    *(
        "git init -q OUT/repo && echo GOT",
        "tar c . | tar x -C OUT && echo GOT",
        "dd if=/dev/zero of=OUT/file count=1 && echo GOT",
    ),
    *("mknod OUT/dev c 1 3 && echo GOT", "mkfifo OUT/fifo && echo GOT", "install -m 4755 /bin/sh OUT/sh && echo GOT"),
    PY.format('import os; os.utime("OUT/file", (1, 1))'),
    PY.format('import os; os.chown("OUT/file", 1, 1)'),
]
PROCESSES = [
    *("echo x > /proc/HOST/root/OUT/new && echo GOT", "cat /proc/HOST/environ && echo GOT", "kill -0 HOST && echo GOT"),
    *("ls /proc/HOST/fd && echo GOT", "readlink /proc/HOST/cwd && echo GOT", "cat /proc/HOST/maps && echo GOT"),
    *("[ $(ls -d /proc/[0-9]* | wc -l) -gt 12 ] && echo GOT", "echo x > /proc/1/root/OUT/new && echo GOT"),
    *(
        "cd /proc/1/cwd/.. && echo x > treadle-new && echo GOT",
        "renice -n 5 -p HOST && echo GOT",
        "cat /proc/1/environ | grep canary && echo GOT",
    ),
    *(
        "env | grep canary && echo GOT",
        "cat /proc/*/environ | grep canary && echo GOT",
        "ps axe | grep -v grep | grep canary && echo GOT",
    ),
    "(exec 9>> /proc/HOST/mem) && echo GOT",
    PY.format("import os; os.pidfd_open(HOST)"),
    PY.format('import os; assert len(os.listdir("/proc/self/fd")) > 4'),
]
KERNEL = [
    f"(exec 9>> {path}) && echo GOT"
    for path in (
        *(
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/vm/drop_caches",
            "/proc/sys/kernel/hostname",
            "/proc/sysrq-trigger",
        ),
        *(
            "/sys/power/state",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/fs/cgroup/cgroup.procs",
        ),
        *("/proc/irq/default_smp_affinity", "/proc/self/attr/current/x", "/sys/kernel/uevent_helper"),
    )
]
KERNEL += [
    *(
        "mount -t tmpfs x OUT && echo GOT",
        "mount --bind . OUT && echo GOT",
        "mount -o remount,rw / && echo GOT",
        "umount /tmp && echo GOT",
    ),
    *(
        "umount secrets && echo GOT",
        "chroot / true && echo GOT",
        "hostname treadle && echo GOT",
        "mknod dev b 8 0 && echo GOT",
    ),
    *(
        'unshare -rm sh -c "mount -o remount,bind,rw / && echo x > OUT/new" && echo GOT',
        "su -c true nobody < /dev/null && echo GOT",
    ),
    *(
        'unshare -rm sh -c "umount secrets && cat secrets/key" && echo GOT',
        'unshare -rm sh -c "umount -l / && ls OUT" && echo GOT',
    ),
    *(
        "nsenter -t 1 -m touch OUT/new && echo GOT",
        "nsenter -t HOST -a true && echo GOT",
        "insmod x.ko && echo GOT",
    ),
    *(
        "for f in /dev/sda /dev/vda /dev/nvme0n1 /dev/kmsg /dev/mem; do [ -b $f -o -c $f ] && echo GOT; done",
        "grep -q 0000000000000000 /proc/self/status || echo GOT",
        "ping -c1 -W1 127.0.0.1 | grep -q zzz && echo GOT",
    ),
]
CALLS = [
    PY.format(f"import ctypes; l=ctypes.CDLL(None,use_errno=True); assert l.syscall({numbers}) >= 0")
    for numbers in (
        "425,1,0",
        "323,0",
        "321,0,0,0",
        "250,0,-3,0",
        "304,-100,0,0",
        '428,-100,b"/",1',
        "298,0,0,0,0,0",
        '430,b"tmpfs",0',
    )
]
CALLS += [
    PY.format('import fcntl,termios; fcntl.ioctl(0, termios.TIOCSTI, b"x")'),
    PY.format("import socket; socket.socket(40, 1)"),
    PY.format("import socket; socket.socket(17, 3)"),
    PY.format('import fcntl,termios; fcntl.ioctl(open("/dev/tty"), termios.TIOCSTI, b"x")'),
]
REACH = [
    *("exec 9<>/dev/tcp/127.0.0.1/PORT && echo GOT", "curl -s -m 3 http://127.0.0.1:PORT/ && echo GOT"),
    PY.format('import socket; socket.socket(socket.AF_UNIX).connect("SOCKET")'),
    PY.format('import socket; socket.socket(socket.AF_UNIX).connect("\\0treadle-abstract-TEST")'),
    PY.format('import socket; socket.create_connection(("127.0.0.1", PORT), 3)'),
    PY.format('import socket; socket.getaddrinfo("example.com", 80)'),
    *(
        "ls /run/docker.sock /var/run/docker.sock /run/dbus /run/systemd && echo GOT",
        '[ -S "$SSH_AUTH_SOCK" ] && echo GOT',
    ),
    *(
        "ls /tmp/* | grep -q treadle-canary && echo GOT",
        "ls -A STATE | grep -q . && echo GOT",
        "echo x > STATE/x; [ -e STATE/kept ] && echo GOT",
    ),
    *(
        "cat STATE/kept && echo GOT",
        "ls /dev/shm | grep treadle-canary && echo GOT",
        "ipcs -m | grep -q 0x7e && echo GOT",
    ),
]
# A file in the workspace that runs as its owner: one of root's, made in a container, would work outside of it.
OWNERS_RIGHTS = [
    f"cp /bin/sh s; {how} && echo GOT"
    for how in (
        *("chmod 4755 s", "chmod u+s s", "chmod 6755 s", "install -m 4755 /bin/sh s2"),
        "cp -p /usr/bin/su s3 && [ -u s3 ]",
    )
]
OWNERS_RIGHTS += [
    PY.format(f"import os; {how}")
    for how in (
        'os.close(os.open("s4", os.O_CREAT | os.O_WRONLY, 0o4755)); assert os.stat("s4").st_mode & 0o4000',
        'os.mknod("s5", 0o104755)',
        'os.fchmod(os.open("s6", os.O_CREAT), 0o4755)',
        'os.link("/usr/bin/su", "s7")',
    )
]
HIDDEN = [
    *(
        "cat secrets/key && echo GOT",
        "mv secrets s2 && echo GOT",
        "rmdir secrets && echo GOT",
        "ls secrets | grep -q . && echo GOT",
    ),
    *(
        "git config core.fsmonitor evil && echo GOT",
        "echo x > .git/hooks/pre-commit && echo GOT",
        "mv .git g2 && echo GOT",
        "rm -rf .git/config && echo GOT",
    ),
    *(
        "echo x >> .git/config && echo GOT",
        "ln -sf /x .git/config && echo GOT",
        "mv .vscode v2 && echo GOT",
        "echo x > .vscode/tasks.json && echo GOT",
    ),
    *(
        "echo x >> .git/info/attributes && echo GOT",
        "chmod 777 .git/hooks && echo GOT",
        "git remote add evil x && echo GOT",
    ),
]


def every(**names: str) -> list[str]:
    found = [*WRITES, *PROCESSES, *KERNEL, *CALLS, *REACH, *OWNERS_RIGHTS, *HIDDEN]
    for name, value in names.items():
        found = [one.replace(name, value) for one in found]
    return found
