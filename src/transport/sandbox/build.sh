# Becomes process 1 of a sandbox: mounts a copy-on-write view of this machine, hides the real machine's own data, and
# waits. Runs in new namespaces that still show the machine's mounts and /proc.
# $1 host, $2 boot id, $3 folder with the stand-ins, $4 `yes` in a user namespace of one user, $5 capabilities to drop,
# $6 name of a board or nothing.
#
# For a rehearsal, $7 is `rehearsal`, and the view is one of the host itself: it keeps the host's name, homes, records,
# package sources and network for downloads, and it ends with stdin. Then $3 is the code that writes the stand-ins, $8
# the size of the view in KiB, $9 `yes` if the host runs systemd, ${10} what systemd says about the units that are up,
# and ${11} the seconds without a heartbeat after which the view ends.
set -eu
umask 022
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
host=$1 boot=$2 alone=$4 given_up=$5
board=$6
case ${7-} in
  rehearsal) rehearsal=yes stand_ins=$3 size=$8k small=$(($8 / 8))k systemd=$9 units=${10} lease=${11} ;;
  *) rehearsal=no stand_ins=$(cat "$3/stand-ins") size=50% small=50% ;;
esac
read -r pid rest </proc/self/stat
b=/tmp
r=$b/root
fail() { printf '%s\n' "$*" >&2; exit 1; }
quiet() { "$@" 2>/dev/null; }
# /run still belongs to the machine: with -n, libmount makes no /run/mount in it.
mount() { command mount -n "$@"; }
umount() { command umount -n "$@"; }

# Mounts a layer over folder $1 at $2. A single user may not write to root's folders, so the layer brings its own; they
# merge with those below.
layer() {
  n=$((n + 1))
  mkdir -p "$b/layer/$n/up" "$b/layer/$n/work" "$2"
  if [ "$alone" = yes ]; then
    (cd "$1" && find . -xdev -type d -print0 2>/dev/null |
      tar -c --no-recursion --null -T - 2>/dev/null) | tar -x --no-same-owner -C "$b/layer/$n/up" 2>/dev/null || :
  fi
  o=lowerdir=$1,upperdir=$b/layer/$n/up,workdir=$b/layer/$n/work
  # A user's layer keeps its metadata in user xattrs; kernels before 5.11 support neither.
  if [ "$alone" = yes ]; then o=$o,userxattr; fi
  if [ "$rehearsal" = yes ]; then
    printf '%s\n' "$1" >"$b/layer/$n/at"
    # The report reads the upper layer: it must contain whole files and directories. Old kernels have no such options.
    quiet mount -t overlay -o "$o,redirect_dir=off,metacopy=off" forge-rehearsal "$2" && return
  fi
  quiet mount -t overlay -o "$o" forge-sandbox "$2"
}

# The system's mounts below /: its own file systems, and single bind-mounted files.
inner_mounts() {
  awk '{ for (i = 7; $i != "-"; i++); print $5, $(i + 1) }' /proc/self/mountinfo | sort -u |
    while read -r point type; do
      case $type in proc | sysfs | tmpfs | devtmpfs | devpts | mqueue | cgroup* | nsfs | overlay | autofs | fuse*) [ -f "$point" ] || continue ;; esac
      case $point in *\\*) continue ;; /var/lib/*/*/* | /*/*/*/*/*) continue ;; esac
      case $point in /usr | /usr/* | /etc/* | /var | /var/* | /opt | /opt/* | /srv | /srv/* | /boot | /boot/*) printf '%s\n' "$point" ;; esac
    done
}

# Every file system of the host with files on a local disk. Others are empty in the view, and named in `hidden`: a
# network that hangs must not stop a rehearsal.
host_mounts() {
  awk '{ for (i = 7; $i != "-"; i++); print $5, $(i + 1) }' /proc/self/mountinfo | sort -u |
    while read -r point type; do
      case $point in
        / | *\\* | /proc | /proc/* | /sys | /sys/* | /dev | /dev/* | /run | /run/* | /tmp | /tmp/* | /var/tmp | /var/tmp/* | /var/lib/*/*/*) continue ;;
      esac
      if [ -f "$point" ]; then printf '%s\n' "$point"; continue; fi
      case $type in
        ext2 | ext3 | ext4 | xfs | btrfs | f2fs | zfs | vfat | squashfs | erofs | jfs | bcachefs) printf '%s\n' "$point" ;;
        *) printf '%s\t%s\n' "$point" "$type" >>"$b/hidden" ;;
      esac
    done
}

# All of / in one layer, and one for each file system in it.
whole() {
  layer / "$r" || return 1
  if [ "$rehearsal" = yes ]; then points=$(host_mounts); else points=$(inner_mounts); fi
  for point in $points; do
    if [ -f "$point" ]; then cp "$point" "$r$point" 2>/dev/null || :; else layer "$point" "$r$point" || return 1; fi
  done
}

# A root of its own, with layers over programs and copies of small, written files.
pieces() {
  mkdir -p "$r" && mount -t tmpfs -o mode=755,size=50% forge-sandbox "$r" || return 1
  for d in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$d" ]; then cp -P "/$d" "$r/$d"; elif [ -d "/$d" ]; then layer "/$d" "$r/$d" || return 1; fi
  done
  layer /usr "$r/usr" || return 1
  for d in opt srv; do mkdir -p "$r/$d"; layer "/$d" "$r/$d" || :; done
  copy /etc
  mkdir -p "$r/var/lib/apt"
  (cd /var && find . -xdev -maxdepth 2 -type d -print0 2>/dev/null | tar -c --no-recursion --null -T - 2>/dev/null) |
    tar -x --no-same-owner -C "$r/var" 2>/dev/null || :
  find /var -maxdepth 1 -type l -exec cp -P {} "$r/var/" \;
  copy /var/lib/dpkg
  mkdir -p "$r/var/cache/apt/archives/partial" "$r/var/lib/apt/lists/partial" "$r/var/log/apt"
  [ -e "$r/etc/shadow" ] || sed 's/:.*/:*:19000:0:99999:7:::/' /etc/passwd >"$r/etc/shadow"
  [ -e "$r/etc/gshadow" ] || sed 's/:.*/:*::/' /etc/group >"$r/etc/gshadow"
}

# Unreadable files are skipped.
copy() { mkdir -p "$r$1"; cp -rP --preserve=mode,timestamps "$1/." "$r$1" 2>/dev/null || :; }

empty() { mkdir -p "$2"; mount -t tmpfs -o "nosuid,nodev,mode=$1,size=$small" forge-sandbox "$2"; }

hide() {
  if [ "$rehearsal" = yes ]; then hide_sockets; return; fi
  empty 755 "$r/run"
  mkdir -m 1777 "$r/run/lock"
  empty 1777 "$r/tmp"
  empty 1777 "$r/var/tmp"
  empty 700 "$r/root"
  empty 755 "$r/home"
  # Homes in other places.
  awk -F: '$3 == 0 || ($3 >= 1000 && $3 < 60000) { print $6 }' /etc/passwd | sort -u | while read -r home; do
    case $home in / | /root | /home/* | /bin* | /sbin* | /usr* | /etc* | /var | /var/empty | /run* | /dev* | /proc* | /sys* | *..* | '') continue ;; esac
    [ ! -d "$r$home" ] || empty 700 "$r$home"
  done
  # Containers and machines of this machine, with their sockets.
  for d in docker containerd containers lxc lxd machines libvirt kubelet incus; do
    [ ! -d "$r/var/lib/$d" ] || empty 755 "$r/var/lib/$d"
  done
  for d in var opt srv; do
    [ ! -d "$r/$d" ] || timeout 20 find "$r/$d" -xdev -type s -delete 2>/dev/null || :
  done
  # Changes that forge made to this machine do not count for the sandbox.
  rm -rf "$r/var/lib/forge"
}

# Hides what leads to processes of the host: sockets and temporary files. Scripts expect the folders of /run.
hide_sockets() {
  empty 755 "$r/run"
  empty 1777 "$r/tmp"
  empty 1777 "$r/var/tmp"
  run=$b/run
  mkdir "$run"
  (cd /run && find . -xdev -maxdepth 2 -type d ! -path './user/*' ! -path './forge*' ! -path './lock/?*' -print0 |
    tar -c --no-recursion --null -T - 2>/dev/null) | tar -x -C "$run" 2>/dev/null || :
  mkdir -p -m 1777 "$run/lock"
  for f in /run/reboot-required /run/reboot-required.pkgs; do [ ! -f "$f" ] || cp -p "$f" "$run/"; done
  names=$(readlink -f /etc/resolv.conf) || names=
  case $names in
    /run/*) at=$run/${names#/run/}; mkdir -p "${at%/*}" && cp "$names" "$at" || : ;;
  esac
  cp -a "$run/." "$r/run/"
  for d in docker containerd containers lxc lxd machines libvirt kubelet incus; do
    [ ! -d "$r/var/lib/$d" ] || empty 755 "$r/var/lib/$d"
  done
  # A socket to which no process listens leads nowhere.
  awk '$8 ~ "^/" { print $8 }' /proc/net/unix | sort -u | while read -r socket; do
    [ ! -S "$r$socket" ] || rm -f "$r$socket"
  done
}

devices() {
  empty 755 "$r/dev"
  for d in null zero full random urandom tty; do
    [ -e "/dev/$d" ] || continue
    : >"$r/dev/$d" && mount --bind "/dev/$d" "$r/dev/$d"
  done
  mkdir "$r/dev/pts" && quiet mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$r/dev/pts" || :
  empty 1777 "$r/dev/shm"
  ln -s pts/ptmx "$r/dev/ptmx"
  ln -s /proc/self/fd "$r/dev/fd"
  ln -s fd/0 "$r/dev/stdin"
  ln -s fd/1 "$r/dev/stdout"
  ln -s fd/2 "$r/dev/stderr"
}

# /proc/sys becomes a tree of plain files with the kernel's current values: writes change the copy.
kernel() {
  mkdir -p "$r/proc" "$r/sys"
  mount -t proc -o nosuid,nodev,noexec proc "$r/proc" || fail "a fresh /proc cannot be mounted here: parts of /proc are covered, as in most containers
hint: run forge as root; in a container, start it with --privileged"
  [ "$rehearsal" = yes ] || quiet hostname "$host" || printf '%s' "$host" >"$r/proc/sys/kernel/hostname"
  copied=$b/kernel
  mkdir "$copied"
  cp -r --preserve=mode "$r/proc/sys/." "$copied" 2>/dev/null || :
  [ -s "$copied/kernel/ostype" ] || fail "/proc/sys cannot be copied"
  chmod -R u+w "$copied"
  printf '%s\n' "$host" >"$copied/kernel/hostname"
  printf '%s\n' "$boot" >"$copied/kernel/random/boot_id"
  mount --bind "$r/proc/sys/kernel/random/uuid" "$copied/kernel/random/uuid"
  mount --rbind "$copied" "$r/proc/sys"
  for f in kcore keys kmsg timer_list sched_debug sysrq-trigger; do
    [ ! -f "$r/proc/$f" ] || mount --bind /dev/null "$r/proc/$f"
  done
  for d in irq bus fs acpi scsi; do
    [ ! -d "$r/proc/$d" ] || read_only "$r/proc/$d" "$r/proc/$d"
  done
  # A new sysfs would show the network devices of the view only.
  [ "$rehearsal" = no ] && quiet mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$r/sys" || read_only /sys "$r/sys"
}

# Mounts a read-only view of $1, with every mount in it, at $2.
read_only() {
  mount --rbind "$1" "$2"
  awk '{ print $5 }' /proc/self/mountinfo | while read -r point; do
    case $point in "$2" | "$2"/*) mount -o remount,bind,ro,nosuid,nodev,noexec "$point" || exit 1 ;; esac
  done || fail "$1 cannot be made read-only"
}

# What is up on the host counts as up in the view, until something stops or restarts it there.
assume_units() {
  kept=$r/usr/local/lib/forge-sandbox
  mkdir -p "$kept/assumed" "$r/run/forge-sandbox/units"
  printf '%s\n\n' "$units" | awk -F= -v folder="$kept/assumed" '
    function put(name, text) { print text >(folder "/" unit "/" name); close(folder "/" unit "/" name) }
    NF { v[$1] = substr($0, length($1) + 2); next }
    { unit = v["Id"]
      if (unit ~ /^[A-Za-z0-9:_.@\\-]+$/ && unit !~ /^forge-/) {
        system("mkdir -p \"" folder "/" unit "\"")
        put("type", "assumed"); put("state", v["ActiveState"] " " v["SubState"] " " v["Result"])
        put("invocation", v["InvocationID"]); at = v["ActiveEnterTimestamp"]; sub(/ [A-Z]+$/, "", at); put("at", at) }
      delete v }'
  cp -r "$kept/assumed/." "$r/run/forge-sandbox/units/"
}

# The view of a rehearsal keeps the names and the package sources of the host.
rehearsal_identity() {
  printf 'rehearsal\n' >"$r/run/forge-sandbox.kind"
  (cd "$r" && eval "$stand_ins") || fail "the stand-ins cannot be written"
  kept=$r/usr/local/lib/forge-sandbox
  # Scripts that name the program by its path must not reach the host's systemd either.
  for f in usr/bin/systemctl bin/systemctl; do
    if [ -e "$r/$f" ] && ! cmp -s "$r/$f" "$r/usr/local/sbin/systemctl"; then
      rm -f "$r/$f" && cp "$r/usr/local/sbin/systemctl" "$r/$f"
    fi
  done
  for program in apt apt-get dnf yum; do [ -x "$r/usr/bin/$program" ] || rm -f "$r/usr/local/sbin/$program"; done
  cp -r "$r/proc/sys" "$kept/kernel"
  rm -f "$kept/kernel/kernel/random/uuid"
  printf '%s\n' "$boot" >"$kept/id"
  (cd "$r/etc/systemd/system" 2>/dev/null && ls -d ./*.wants/* | sed 's,.*/,,') >"$kept/enabled" 2>/dev/null || :
  : >"$kept/started"
  cp -a "$b/run" "$kept/run"
  touch "$kept/hidden"
  [ ! -e "$b/hidden" ] || cp "$b/hidden" "$kept/hidden"
  # The network that downloads use.
  : >"$kept/net" && mount --bind /proc/self/ns/net "$kept/net" || fail "the network of the host cannot be kept for downloads"
  # rpm writes to its database even to read it, so the host's own is not asked.
  if [ -x "$r/usr/bin/rpm" ]; then
    chroot "$r" rpm -qa --qf '%{NAME}:%{ARCH}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\n' >"$kept/rpm.packages" 2>/dev/null || :
    chroot "$r" rpm -qa --qf '[%{=NAME}\t%{FILENAMES}\n]' >"$kept/rpm.files" 2>/dev/null || :
  fi
  assume_units
  : >"$kept/journal"
}

identity() {
  if [ "$rehearsal" = yes ]; then rehearsal_identity; return; fi
  printf '%s\n' "$host" >"$r/etc/hostname"
  printf '127.0.0.1 localhost\n127.0.1.1 %s\n::1 localhost\n' "$host" >"$r/etc/hosts"
  rm -f "$r/etc/machine-id"
  printf '%s\n' "$boot" | tr -d - >"$r/etc/machine-id"
  printf 'sandbox\n' >"$r/run/forge-sandbox.kind"
  # There is no network: packages come from repositories inside.
  if [ -d "$r/etc/apt" ]; then
    rm -rf "$r/etc/apt/sources.list" "$r/etc/apt/sources.list.d" "$r"/var/lib/apt/lists/*_*
    mkdir -p "$r/etc/apt/sources.list.d" "$r/etc/apt/apt.conf.d"
    [ "$alone" = no ] || printf 'APT::Sandbox::User "root";\n' >"$r/etc/apt/apt.conf.d/00forge-sandbox"
  fi
  # Stand-ins for a machine's programs and files, each below the folder it is unpacked in.
  (cd "$r" && eval "$stand_ins") || fail "the stand-ins cannot be written"
  kept=$r/usr/local/lib/forge-sandbox
  cp -r "$r/proc/sys" "$kept/kernel"
  rm -f "$kept/kernel/kernel/random/uuid"
  # Commands compare it before they run, so that none runs outside the sandbox.
  printf '%s\n' "$boot" >"$kept/id"
  (cd "$r/etc/systemd/system" 2>/dev/null && ls -d ./*.wants/* | sed 's,.*/,,') >"$kept/enabled" 2>/dev/null || :
  : >"$kept/started"
}

# A server has its own kernel, boot loader and modules. A board's cards are in the same place as in forge's tests.
board() {
  [ -n "$board" ] || return 0
  command -v bash >/dev/null || fail "this machine has no \`bash\`, which sandboxes with hardware need
hint: install bash"
  for d in /sys/module /sys/firmware /sys/class /sys/bus/pci /proc/driver; do
    [ -d "$r$d" ] || fail "the board $board cannot be shown here: this machine has no \`$d\`"
  done
  mkdir -p "$r/etc/forge" "$r/lib/modules" "$r/boot"
  printf '%s\n' "$board" >"$r/etc/forge/simulated-hardware"
  empty 755 "$r/boot"
  empty 755 "$r/lib/modules"
  rm -f "$r/.dockerenv"
}

n=0
mount -t tmpfs -o "mode=755,size=$size" forge-sandbox "$b"
[ "$alone" = no ] && whole || {
  [ "$rehearsal" = no ] || fail "no overlay can be mounted on the host: the kernel lacks overlayfs, or / is an overlay of an overlay already"
  quiet umount -R "$r" || :
  pieces || fail "no overlay can be mounted here: the kernel lacks overlayfs, or this is a container inside too many layers"
}
hide
devices
kernel
identity
board
if [ "$rehearsal" = yes ]; then
  # The report reads what changed through this descriptor of process 1; the view itself has no path to it. What is here
  # already was not changed by the plan.
  (cd "$b/layer" && find . -mindepth 3 -path './*/up/*' -printf '%p\t%y %m %U %G %s %C@\n') >"$r/usr/local/lib/forge-sandbox/baseline"
  exec 7<"$b/layer"
fi
[ "$rehearsal" = yes ] || quiet ip link set lo up || :
mkdir "$r/run/.machine"
cd "$r"
pivot_root . run/.machine
cd /
umount -l /run/.machine
rmdir /run/.machine
awk '{ print $5 }' /proc/self/mountinfo >/usr/local/lib/forge-sandbox/mounts
[ -z "$board" ] || {
  bash /srv/forge-hardware/sandbox </dev/null && sh /usr/local/lib/forge-sandbox/clock && sh /srv/forge-hardware/boot ||
    fail "the board $board cannot be shown here"
}
if [ "$rehearsal" = yes ]; then
  # A process that ends all others of the view, as a reboot does, also ends `timeout`.
  wait='while :; do timeout "$1" sh -c "read -r line"; case $? in 0 | 137 | 143) ;; *) exit ;; esac; done'
  exec unshare --net -- sh -c '
    ip link set lo up 2>/dev/null
    printf "ready %s %s %s %s\n" "$1" "$2" "$3" "$4"
    exec >/dev/null 2>&1
    exec setpriv --bounding-set "$5" -- env -i PATH="$PATH" sh -c "$6" "forge-rehearsal" "$7"' \
    sh "$pid" "$boot" "${size%k}" "$systemd" "$given_up" "$wait" "$lease"
fi
printf 'ready %s\n' "$pid"
exec </dev/null >/dev/null 2>&1
# Process 1 inherits orphans: the shell's wait reaps them.
wait='trap : TERM INT HUP; while :; do sleep 3600 & wait "$!"; done'
[ "$alone" = yes ] || exec setpriv --bounding-set "$given_up" -- env -i PATH="$PATH" sh -c "$wait" "forge-sandbox:$host"
exec env -i PATH="$PATH" sh -c "$wait" "forge-sandbox:$host"
