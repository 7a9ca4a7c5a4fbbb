package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// hardwareSeen has a guest print its hardware, a fact per line. A driver may be loaded after the agent answers, and a
// disk is there before the kernel knows its names.
const hardwareSeen = `
while read -r module; do insmod "/modules/$module"; done </modules/probes
show() { echo "$1: $(busybox tr -s ' \000' ' ' <"$2" 2>/dev/null)"; }
until [ -e /sys/block/sda/device/wwid ] && [ -e /sys/block/vdb/serial ]; do sleep 0.1; done
for fact in bios_vendor sys_vendor product_serial board_serial chassis_asset_tag; do
	show $fact /sys/class/dmi/id/$fact
done
show fw_cfg /sys/firmware/qemu_fw_cfg/by_name/opt/com.example/name/raw
show fw_cfg_file /sys/firmware/qemu_fw_cfg/by_name/opt/com.example/os/raw
show nodes /sys/devices/system/node/online
for node in 0 1; do
	show node$node /sys/devices/system/node/node$node/cpulist
	show distance$node /sys/devices/system/node/node$node/distance
	show die$node /sys/devices/system/cpu/cpu$node/topology/die_id
done
for disk in /sys/block/vd*; do
	read -r serial <"$disk/serial"
	[ "$serial" = S-scratch ] && scratch=/dev/${disk##*/}
	show "$serial" "$disk/queue/logical_block_size"
	show "$serial physical" "$disk/queue/physical_block_size"
	echo "$serial queues: $(ls "$disk/mq" | busybox wc -l)"
done
for fact in wwid vendor model vpd_pg80; do show "sda $fact" /sys/block/sda/device/$fact; done
show "sda rotational" /sys/block/sda/queue/rotational
show rng /sys/class/misc/hw_random/rng_current
echo "random: $(dd if=/dev/hwrng bs=16 count=1 2>/dev/null | busybox wc -c)"
echo written | dd of="$scratch" bs=4096 conv=sync,fsync 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
echo "scratch: $(dd if="$scratch" bs=8 count=1 2>/dev/null)"
while read -r module; do insmod "/modules/$module"; done </modules/virtiofs
mount -t virtiofs share /mnt
show "of the host" /mnt/host
echo from the guest >/mnt/guest
`

// TestAccGuest_hardware: a guest sees its hardware as it is declared. What it writes to a transient disk is gone when
// it is off, and what it writes to a directory of its host stays there.
func TestAccGuest_hardware(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	image := func(key string) string { return l.Image(t, host, name+"-"+key, "raw", 1<<20) }
	scratch := image("scratch")
	content := func() string { return l.Run(t, host, "sha256sum", scratch) }
	before := content()
	share := "/srv/" + name
	l.Run(t, host, "mkdir", share)
	t.Cleanup(func() { l.Run(t, host, "rm", "-r", share) })
	l.Run(t, host, "sh", "-c", "echo from the host >"+share+"/host")
	tf := acctest.NewCLI(t)
	config := guest(l, name).with(talking).with(hcl{
		"host": quote(host),
		"cpu": `{
    sockets = 1, dies = 2, cores = 2, threads = 1, mode = "custom", model = "Nehalem"
    numa = {
      0 = { cpus = "0", memory = "96Mi", distances = { 1 = 31 } }
      1 = { cpus = "1", memory = "96Mi", distances = { 0 = 31 } }
    }
  }`,
		"memory": `{ size = "192Mi", source = "memfd", shared = true }`,
		"platform": `{
    smbios = {
      mode    = "sysinfo", bios = { vendor = "ACME BIOS" }, system = { manufacturer = "ACME", serial = "A & 1" }
      chassis = { asset = "C=1" }, base_board = { serial = "B1" }
    }
    fw_cfg       = { "opt/com.example/name" = "one = two" }
    fw_cfg_files = { "opt/com.example/os" = "/etc/hostname" }
  }`,
		"devices": fmt.Sprintf(`{
    rng         = { model = "virtio" }
    filesystems = { share = { target = "share", source = %q } }
  }`, share),
		"disks": fmt.Sprintf(`{
    big     = { file = %q, serial = "S-big", logical_block_size = 4096, physical_block_size = 4096, queues = 2 }
    scratch = { file = %q, serial = "S-scratch", physical_block_size = 4096, queues = 1, transient = true }
    data    = {
      file = %q, bus = "scsi", wwn = "5000C50015EA71AD", vendor = "ACME", product = "Disk 1", serial = "S-data"
      rotation_rate = 1
    }
  }`, image("big"), scratch, image("data")),
	})
	tf.Config(t, acctest.OneHost(l)+config.String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	seen := map[string]string{}
	for line := range strings.Lines(outputInGuest(t, l, host, name, hardwareSeen)) {
		fact, value, _ := strings.Cut(line, ":")
		seen[fact] = strings.TrimSpace(value)
	}
	for fact, want := range map[string]string{
		"bios_vendor": "ACME BIOS", "sys_vendor": "ACME", "product_serial": "A & 1", "board_serial": "B1",
		"chassis_asset_tag": "C=1", "fw_cfg": "one = two",
		"fw_cfg_file": strings.TrimSpace(l.Run(t, host, "cat", "/etc/hostname")),
		"nodes":       "0-1", "node0": "0", "node1": "1", "distance0": "10 31", "distance1": "31 10",
		"die0": "0", "die1": "1",
		"S-big": "4096", "S-big physical": "4096", "S-big queues": "2",
		"S-scratch": "512", "S-scratch physical": "4096", "S-scratch queues": "1",
		"sda wwid": "naa.5000c50015ea71ad", "sda vendor": "ACME", "sda model": "Disk 1", "sda rotational": "0",
		"rng": "virtio_rng.0", "random": "16", "scratch": "written", "of the host": "from the host",
	} {
		if seen[fact] != want {
			t.Errorf("the guest sees %s %q, want %q", fact, seen[fact], want)
		}
	}
	if !strings.HasSuffix(seen["sda vpd_pg80"], "S-data") {
		t.Errorf("the guest sees %q, which doesn't end in the serial number", seen["sda vpd_pg80"])
	}
	if t.Failed() {
		t.Logf("%q", seen)
	}
	tf.Config(t, acctest.OneHost(l)+config.with(hcl{"run_strategy": quote("Halted")}).String())
	tf.Run(t, "apply")
	awaitState(t, l, host, name, "shut off (shutdown)")
	if is := l.Run(t, host, "cat", share+"/guest"); is != "from the guest\n" {
		t.Errorf("in the directory, the host reads %q", is)
	}
	if now := content(); now != before {
		t.Errorf("the file of the transient disk was %s and is %s", before, now)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
