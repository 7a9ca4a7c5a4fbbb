#!/bin/sh
# The first process of a lab guest. Words on the kernel's command line change what the guest does:
#   noacpi        ignore the power button
#   noagent       run no guest agent
#   deny=<c,...>  run the guest agent without these commands
#   noshutdown    run the guest agent, but ignore its request to shut down
#   panic         tell the hypervisor's panic device when the kernel panics
#   dirty=<MiB>[@<rate>]
#                 write to that much memory, of which a guest of 128 MiB has 60 to spare, once as fast as it can, and then
#                 again and again at that many MiB a second: 8, or the rate, which can be max
#   counter       print a counter to the console, one number per second
#   data          write to the first disk, once and for all its boots, and say again and again whether it holds that
#   beat          write a number to the first disk of 16 MiB or more, twice a second, that continues from the last
#                 boot, with the id of the boot; see the package soak, which reads it from outside
#   hostname=<n>  call the guest so
#   seed          read the medium of cloud-init, which is in the first drive: the hostname, the users with their SSH keys,
#                 and one static address. Users can log in over SSH where there is a server for it, as in the image
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

ipv6=no agent=yes acpi=yes panic=no deny= dirty=0 rate=8 counter=no data=no beat=no seed=no name=guest
static= gateway= mac=
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
	beat) beat=yes ;;
	seed) seed=yes ;;
	dirty=*@*) dirty=${word#dirty=} rate=${dirty#*@} dirty=${dirty%@*} ;;
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
		# As with cloud-init, an interface that the medium's network configuration doesn't match stays down.
		if [ -n "$mac" ]; then
			read -r address <"/sys/class/net/$device/address"
			[ "$address" = "$mac" ] || continue
		fi
		ip link set "$device" up
		if [ -n "$static" ]; then
			ip addr add "$static" dev "$device"
			[ -z "$gateway" ] || ip route replace default via "$gateway" dev "$device"
			echo "init: $device has $static"
			static=
			continue
		fi
		# Where no server answers, it asks seldom: what it sends wakes all guests of its network.
		udhcpc -f -R -i "$device" -s /etc/udhcpc.script -t 10 -T 1 -A 20 >"/run/dhcp.$device" 2>&1 &
	done
	for cpu in /sys/devices/system/cpu/cpu*/online; do
		[ -e "$cpu" ] || continue
		read -r online <"$cpu"
		[ "$online" = 1 ] || echo 1 >"$cpu"
	done
	[ $agent = yes ] && start_agent
}

# pause <seconds> needs no process, unlike sleep, but a file descriptor of its caller's own: own_pauses <name>.
pause() {
	read -r -t "$1" nothing <&3
}

own_pauses() {
	mkfifo "/run/$1"
	exec 3<>"/run/$1"
}

# dirty_memory <MiB> <MiB a second, or max>
dirty_memory() {
	dd if=/dev/urandom of=/dev/shm/block bs=1M count=4 2>/dev/null
	mount -t tmpfs -o size="$(($1 + 8))M" tmpfs /mnt
	own_pauses dirty
	said=no interval=
	[ "$2" = max ] || interval=$((4000 / $2)) interval=$((interval / 1000)).$(printf %03d $((interval % 1000)))
	while :; do
		at=0
		while [ $((at * 4)) -lt "$1" ]; do
			# In small pieces: the kernel is entered again with each, see GuestCmdline.
			dd if=/dev/shm/block of=/mnt/dirty bs=64k seek=$((at * 64)) conv=notrunc 2>/dev/null
			at=$((at + 1))
			[ $said = no ] || [ -z "$interval" ] || pause "$interval"
		done
		[ $said = yes ] || echo "init: it keeps writing"
		said=yes
	done
}

count() {
	own_pauses counter
	number=0
	while :; do
		number=$((number + 1))
		echo "counter $number" >/dev/console
		pause 1
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

# sector <number> <text> writes to a sector of the disk, for good.
sector() {
	echo "$2" | dd of="$disk" bs=512 seek="$1" conv=sync,fsync 2>/dev/null
}

# The last thousand numbers are kept, each in a sector of its own, which is written before the one that says which was the
# last: what was ever said to be written has to be there.
beat() {
	own_pauses beat
	disk=
	until [ -n "$disk" ]; do
		for device in /sys/block/vd*; do
			[ -r "$device/size" ] || continue
			read -r size <"$device/size"
			[ "$size" -ge 32768 ] && disk=/dev/${device##*/} && break
		done
		pause 0.1
	done
	read -r boot </proc/sys/kernel/random/boot_id
	number=$(dd if="$disk" bs=512 skip=2 count=1 2>/dev/null | while read -r last rest; do echo "$last"; break; done)
	case $number in *[!0-9]*) number= ;; esac
	while :; do
		number=$((number + 1))
		sector $((100 + number % 1000)) "$number"
		sector 2 "$number $boot"
		pause 0.5
	done
}

# Makes a user who can log in with a key, not with a password.
add_user() {
	[ -d "/home/$1" ] && return
	mkdir -p "/home/$1/.ssh"
	echo "$1:x:$users:1000::/home/$1:/bin/sh" >>/etc/passwd
	: >"/home/$1/.ssh/authorized_keys"
	chown -R "$users:1000" "/home/$1"
	chmod -R go= "/home/$1"
	users=$((users + 1))
}

# Takes the users and their keys from user data, as far as a shell can: a key that no user is named for is debian's.
read_users() {
	user=debian users=1000
	while read -r line; do
		line=${line#- }
		case $line in
		name:\ *) user=${line#name: } && add_user "$user" ;;
		ssh-*\ *) add_user "$user" && echo "$line" >>"/home/$user/.ssh/authorized_keys" ;;
		esac
	done
}

# Takes the first address with a prefix length, the gateway, and the MAC address of the interface that they are for.
read_network() {
	while read -r line; do
		case ${line#- } in
		[0-9]*.*.*.*/*) static=${line#- } ;;
		via:\ *) gateway=${line#via: } ;;
		macaddress:\ *) mac=${line#macaddress: } ;;
		esac
	done
}

# Does what the medium says, and lets go of it: a drive in use can't be given another one.
read_seed() {
	load seed
	# The drive is there before the kernel knows what is in it.
	patience=300
	until mount -t iso9660 -o ro /dev/sr0 /mnt 2>/dev/null; do
		[ $((patience -= 1)) -gt 0 ] || return
		sleep 0.1
	done
	while read -r key value; do
		[ "$key" = local-hostname: ] && hostname "$value"
	done </mnt/meta-data
	# Quotes say nothing here that these readers need.
	for file in user-data network-config; do
		[ -f "/mnt/$file" ] || continue
		busybox tr -d "\"'" <"/mnt/$file" >"/run/$file"
	done
	[ ! -f /run/user-data ] || read_users </run/user-data
	[ ! -f /run/network-config ] || read_network </run/network-config
	umount /mnt
	[ ! -x /bin/dropbear ] || dropbear -R -s
}

# The agent comes early: that it answers is what most waits are for. The power button works by then: a press that nothing
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
[ $seed = yes ] && read_seed
[ $panic = yes ] && load panic
[ "$dirty" -gt 0 ] && dirty_memory "$dirty" "$rate" &
[ $counter = yes ] && count &
[ $data = yes ] && keep_data &
[ $beat = yes ] && beat &
# It enters the kernel now and then, see GuestCmdline: what a kernel does that has nothing to do but its own leaves the TLB
# as it is, and is lost with a migration that takes a while.
stir &
# The boot is over in which a hang is a panic, see GuestCmdline.
for panics in panic_on_oops softlockup_panic hung_task_panic; do
	echo 0 >"/proc/sys/kernel/$panics"
done
echo "init: guest $name is up"

own_pauses init
while :; do
	hotplug
	pause 2
	# This collects every child that has ended, also those that lost their parent.
	jobs >/dev/null
done
