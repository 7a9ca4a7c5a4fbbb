# The first process of a lab machine: usage init.sh <hostname> <directory with the machine's own files>
# <cgroup, if it runs systemd>.
set -eu
name=$1 root=$2

# A host with cgroups of its own: this process and all others of the machine are in them, and see no others.
groups=$root/../cgroups
if [ -f "$groups" ] && [ $# -lt 4 ]; then
	while read -r group _; do
		echo 0 >"$group/cgroup.procs"
	done <"$groups"
	exec unshare --cgroup bash "$0" "$name" "$root" "$3" joined
fi

# Mounts made here must not be seen outside, and those made outside are of no interest.
mount --make-rprivate /
mount -t proc proc /proc
# A sysfs of our own shows our own network devices. It also hides the cgroups, which a host of the lab must not touch
# unless it has its own.
umount -R -l /sys
mount -t sysfs sysfs /sys
if [ -f "$groups" ]; then
	mount -t tmpfs tmpfs /sys/fs/cgroup
	while read -r _ controllers enable; do
		mkdir "/sys/fs/cgroup/$controllers"
		if [ -n "$enable" ]; then
			# Version 2: a cgroup that has processes can't have controllers below it, so that ours are one level below.
			mount -t cgroup2 cgroup2 "/sys/fs/cgroup/$controllers"
			mkdir "/sys/fs/cgroup/$controllers/lab"
			echo 0 >"/sys/fs/cgroup/$controllers/lab/cgroup.procs"
			echo "$enable" >"/sys/fs/cgroup/$controllers/cgroup.subtree_control"
			continue
		fi
		mount -t cgroup -o "$controllers" cgroup "/sys/fs/cgroup/$controllers"
		for one in ${controllers//,/ }; do
			[ -e "/sys/fs/cgroup/$one" ] || ln -s "$controllers" "/sys/fs/cgroup/$one"
		done
	done <"$groups"
fi

# Memory that programs share by its name is the machine's own.
mount -t tmpfs tmpfs /dev/shm

# One process for all of them.
mount --all --fstab "$root/../fstab"

# libvirt asks a QEMU what it can do again, a second each time, while QEMU's user may not open an existing /dev/kvm.
# The real machine decides who may; here every account may.
if [ -c /dev/kvm ]; then
	rm -f "$root/kvm"
	mknod -m 666 "$root/kvm" c 10 232
	mount --bind "$root/kvm" /dev/kvm
fi

# A command over SSH is run by root's shell, whose start file is this computer's: what a developer has there may take a
# second each time, or wait for a lock.
if [ -e /root/.bashrc ]; then
	mount --bind /dev/null /root/.bashrc
fi

hostname "$name"
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward

if [ -e "$root/../systemd.sh" ]; then
	exec bash "$root/../systemd.sh" "$0" "$3"
fi
: >/run/machine-ready

# From here on this process only reaps: whatever loses its parent becomes our child, and bash collects it.
# The first process of a process namespace ignores signals that it has no handler for, so only SIGKILL ends it.
while :; do
	sleep 86400 &
	wait $! || true
done
