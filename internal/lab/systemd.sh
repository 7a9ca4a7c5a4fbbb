# Continues machine.sh on a host that runs systemd: usage systemd.sh <script of the first process> <cgroup>.
set -eu
script=$1 cgroup=$2

# systemd would raise limits of the kernel, which is this computer's, and write to its console. Only the settings of the
# network are the machine's.
for settings in /proc/sys/*; do
	if [ "$settings" != /proc/sys/net ]; then
		mount --bind "$settings" "$settings"
		mount -o remount,bind,ro "$settings"
	fi
done
mount --bind /dev/null /dev/console

# systemd keeps its services apart in cgroups. It gets one for that, as the root of what it sees.
if ! mount -t cgroup2 none /sys/fs/cgroup || ! mkdir -p "/sys/fs/cgroup/$cgroup" ||
	! echo 0 >"/sys/fs/cgroup/$cgroup/cgroup.procs"; then
	echo "A host with systemd needs a cgroup of version 2, below the root of the hierarchy." >&2
	exit 1
fi
umount /sys/fs/cgroup

# The first process is known by its command line. systemd ignores the script's name in it.
export container=virtfleet-lab
exec unshare --cgroup bash -euc 'mount -t cgroup2 none /sys/fs/cgroup
exec -a bash /lib/systemd/systemd "$0" --unit=basic.target' "$script"
