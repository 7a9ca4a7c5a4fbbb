# Builds a disk image of this machine's Debian with cloud-init: cloudimage.sh <directory> <image> <kernel command line>.
# It boots by itself, and its only partition grows with the disk, as in the cloud images of the distribution.
set -eu
work=$1 image=$2 cmdline=$3
tree=$work/tree disk=$work/disk
. /etc/os-release

# The initramfs has what the guest boots from, and the drive with the medium, which cloud-init looks for before anything
# else is loaded. QEMU without KVM takes seconds to unpack more.
mmdebstrap --quiet --variant=minbase \
	--include=systemd-sysv,udev,dbus,cloud-init,cloud-guest-utils,fdisk,openssh-server,qemu-guest-agent \
	--include=linux-image-cloud-amd64,lz4,iproute2,ifupdown,isc-dhcp-client \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/man/*' \
	--essential-hook='cd "$1"; mkdir -p etc/initramfs-tools/conf.d usr/share/initramfs-tools/modules.d
		printf "MODULES=list\nCOMPRESS=lz4\n" >etc/initramfs-tools/conf.d/virtfleet
		printf "%s\n" virtio_blk virtio_pci ext4 virtio_scsi sr_mod isofs >usr/share/initramfs-tools/modules.d/virtfleet' \
	--customize-hook='echo "LABEL=root / ext4 defaults 0 1" >"$1/etc/fstab"' \
	--customize-hook='rm -f "$1/etc/hostname" "$1/etc/resolv.conf" "$1/etc/ssh/ssh_host_"*; : >"$1/etc/machine-id"' \
	"$VERSION_CODENAME" "$tree"

# Both processors enter the kernel now and then, as those of the lab's own guest do: a kernel that has nothing to do
# leaves the TLB as it is, and what it writes meanwhile is lost with a migration. See GuestCmdline.
units=$tree/etc/systemd/system
mkdir -p "$units/multi-user.target.wants"
cat >"$units/stir@.service" <<'UNIT'
[Service]
ExecStart=/usr/bin/taskset -c %i /usr/bin/perl -e "select undef, undef, undef, 0.05 while 1"
UNIT
for cpu in 0 1; do
	ln -s ../stir@.service "$units/multi-user.target.wants/stir@$cpu.service"
done

# The table of a single partition: it is active, begins at sector 2048 and ends with the disk, which has 2 GiB.
truncate --size=2G "$disk"
mke2fs -q -t ext4 -L root -d "$tree" -E offset=1048576 "$disk" 2096128k
cat >"$work/grub.cfg" <<GRUB
set root=(hd0,msdos1)
linux /vmlinuz root=LABEL=root ro $cmdline
initrd /initrd.img
boot
GRUB
grub-mkimage -O i386-pc -p /boot -c "$work/grub.cfg" -o "$work/core.img" biosdisk part_msdos ext2 linux
write() { dd of="$disk" conv=notrunc status=none "$@"; }
write if=/usr/lib/grub/i386-pc/boot.img bs=440 count=1
printf '\200\376\377\377\203\376\377\377\000\010\000\000\000\370\077\000' | write bs=1 seek=446
printf '\125\252' | write bs=1 seek=510
write if="$work/core.img" bs=512 seek=1
qemu-img convert -c -O qcow2 "$disk" "$image"
