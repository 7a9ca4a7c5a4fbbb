#!/bin/sh
# The first process of a lab guest. Words on the kernel's command line change what the guest does:
#   noacpi        ignore the power button
#   noagent       run no guest agent
#   deny=<c,...>  run the guest agent without these commands
#   noshutdown    run the guest agent, but ignore its request to shut down
#   panic         tell the hypervisor's panic device when the kernel panics
#   dirty=<MiB>   keep writing to that much memory: a guest of 128 MiB has 60 to spare
#   counter       print a counter to the console, one number per second
#   data          write to the first disk, once and for all its boots, and say again and again whether it holds that
#   hostname=<n>  call the guest so
#   ipv6          have IPv6 addresses on network devices, which come a second or two after the others
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
: >/run/utmp

ipv6=no agent=yes acpi=yes panic=no deny= dirty=0 counter=no data=no name=guest
read -r words </proc/cmdline
for word in $words; do
	case $word in
	noagent) agent=no ;;
	ipv6) ipv6=yes ;;
	noacpi) acpi=no ;;
	deny=*) deny=${word#deny=} ;;
	noshutdown) : >/run/noshutdown ;;
	panic) panic=yes ;;
	counter) counter=yes ;;
	data) data=yes ;;
	dirty=*) dirty=${word#dirty=} ;;
	hostname=*) name=${word#hostname=} ;;
	esac
done
hostname "$name"
[ $ipv6 = yes ] || echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
ip link set lo up
echo online >/sys/devices/system/memory/auto_online_blocks

load() {
	while read -r module; do
		insmod "/modules/$module" || echo "init: no $module"
	done <"/modules/$1"
}

# Finds the agent's port by its name: there is no udev that would make a link.
start_agent() {
	for port in /sys/class/virtio-ports/*; do
		[ -r "$port/name" ] || continue
		read -r label <"$port/name"
		[ "$label" = org.qemu.guest_agent.0 ] || continue
		qemu-ga --method=virtio-serial --path="/dev/${port##*/}" --statedir=/run --pidfile=/run/qemu-ga.pid \
			${deny:+"--block-rpcs=$deny"} >/run/qemu-ga.log 2>&1 &
		agent=started
		return
	done
}

# Brings up network devices as they appear, and processors.
hotplug() {
	for device in /sys/class/net/*; do
		device=${device##*/}
		[ "$device" = lo ] || [ -e "/run/dhcp.$device" ] && continue
		: >"/run/dhcp.$device"
		ip link set "$device" up
		udhcpc -f -R -i "$device" -s /etc/udhcpc.script -t 30 -T 1 -A 1 >"/run/dhcp.$device" 2>&1 &
	done
	for cpu in /sys/devices/system/cpu/cpu*/online; do
		[ -e "$cpu" ] || continue
		read -r online <"$cpu"
		[ "$online" = 1 ] || echo 1 >"$cpu"
	done
	[ $agent = yes ] && start_agent
}

dirty_memory() {
	dd if=/dev/urandom of=/dev/shm/block bs=1M count=4 2>/dev/null
	mount -t tmpfs -o size="$(($1 + 8))M" tmpfs /mnt
	said=no
	while :; do
		at=0
		while [ $((at * 4)) -lt "$1" ]; do
			# In small pieces: with every one the kernel is entered anew, see GuestCmdline.
			dd if=/dev/shm/block of=/mnt/dirty bs=64k seek=$((at * 64)) conv=notrunc 2>/dev/null
			at=$((at + 1))
		done
		[ $said = yes ] || echo "init: it keeps writing"
		said=yes
	done
}

count() {
	number=0
	while :; do
		number=$((number + 1))
		echo "counter $number" >/dev/console
		sleep 1
	done
}

# Tells the checksum of what the disk holds, not of what is remembered of it.
data_sum() {
	echo 1 >/proc/sys/vm/drop_caches
	dd if=/dev/vda bs=64k skip=3 count=4 2>/dev/null | busybox md5sum
}

# Beside what is written its checksum is kept on the disk.
keep_data() {
	until [ -b /dev/vda ]; do sleep 0.1; done
	written=$(dd if=/dev/vda bs=512 skip=1 count=1 2>/dev/null)
	if [ -z "$written" ]; then
		dd if=/dev/urandom of=/run/data bs=64k count=4 2>/dev/null
		dd if=/run/data of=/dev/vda bs=64k seek=3 conv=fsync 2>/dev/null
		written=$(busybox md5sum </run/data)
		echo "$written" | dd of=/dev/vda bs=512 seek=1 conv=fsync 2>/dev/null
	fi
	while :; do
		said="init: its data are lost"
		[ "$(data_sum)" = "$written" ] && said="init: its data are intact"
		echo "$said" >/dev/console
		sleep 0.5
	done
}

# Enters the kernel now and then, see GuestCmdline: what a kernel does that has nothing to do but its own leaves the TLB as
# it is, and is lost with a migration that takes a while.
stir() {
	mkfifo /run/nothing
	while :; do
		read -r -t 0.05 nothing
	done <>/run/nothing
}

# The agent comes early: that it answers is what most waits are for. The power button works by then: a press that nobody
# hears is lost.
load first
if [ $acpi = yes ]; then
	load acpi
	acpid -l /run/acpid.log -p /run/acpid.pid
	# It listens when it has written its process id.
	patience=100
	until [ -s /run/acpid.pid ] || [ $((patience -= 1)) = 0 ]; do sleep 0.1; done
fi
[ $agent = yes ] && start_agent
load then
[ $panic = yes ] && load panic
[ "$dirty" -gt 0 ] && dirty_memory "$dirty" &
[ $counter = yes ] && count &
[ $data = yes ] && keep_data &
stir &
echo "init: guest $name is up"

while :; do
	hotplug
	# Waiting collects every child, also those that lost their parent.
	sleep 2 &
	wait $!
done
