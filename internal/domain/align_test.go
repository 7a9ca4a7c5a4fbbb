package domain

import (
	"maps"
	"slices"
	"testing"
)

// A key that was changed while the VM runs names the device at once, though what runs has its old alias until it is
// started again.
func TestRunningKeys_followARename(t *testing.T) {
	t.Parallel()
	definition := func(disk, nic string) *Definition {
		d, err := Parse(`<domain type="kvm"><name>a</name><memory>1</memory><devices>
			<disk type="file"><source file="/a"/><target dev="vda" bus="virtio"/><alias name="ua-disk-` + disk + `"/></disk>
			<disk type="file"><source file="/b"/><target dev="vdb" bus="virtio"/><alias name="ua-disk-data"/></disk>
			<interface type="user"><mac address="52:54:00:00:00:01"/><alias name="ua-net-` + nic + `"/></interface>
			<interface type="user"><mac address="52:54:00:00:00:02"/><alias name="ua-net-other"/></interface>
			</devices></domain>`)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	live, persistent := definition("root", "lan"), definition("boot", "wan")
	for name, tt := range map[string]struct {
		live, persistent *Definition
		disk, nic        string
	}{
		"renamed":   {live, persistent, "boot", "wan"},
		"transient": {live, nil, "root", "lan"},
		"off":       {nil, persistent, "boot", "wan"},
	} {
		disks, nics := RunningKeys(tt.live, tt.persistent)
		if !maps.Equal(disks, map[string]string{"vda": tt.disk, "vdb": "data"}) ||
			!slices.Equal(nics, []string{tt.nic, "other"}) {
			t.Errorf("%s: %v, %v", name, disks, nics)
		}
	}
	was, is := live.Spec(), persistent.Spec()
	aligned := AlignKeys(&was, &is)
	_, renamed := aligned.Interfaces["wan"]
	if !renamed || len(aligned.Interfaces) != 2 || aligned.Disks["boot"].Source.File != "/a" {
		t.Errorf("%+v", aligned)
	}
}

// A device that was attached while the VM runs is named, whatever its kind. A renamed device isn't one.
func TestOnlyRunning(t *testing.T) {
	t.Parallel()
	definition := func(devices string) Spec {
		d, err := Parse(`<domain type="kvm"><name>a</name><memory>1</memory><devices>` + devices + `</devices></domain>`)
		if err != nil {
			t.Fatal(err)
		}
		return d.Spec()
	}
	const (
		root = `<disk type="file"><source file="/a"/><target dev="vda" bus="virtio"/><alias name="ua-disk-root"/></disk>`
		boot = `<disk type="file"><source file="/a"/><target dev="vda" bus="virtio"/><alias name="ua-disk-boot"/></disk>`
		more = `<disk type="file"><source file="/b"/><target dev="vdb" bus="virtio"/><alias name="virtio-disk1"/></disk>
			<interface type="user"><mac address="52:54:00:00:00:02"/><alias name="net0"/></interface>
			<hostdev mode="subsystem" type="usb"><source><vendor id="0x1234"/><product id="0xabcd"/></source></hostdev>
			<watchdog model="i6300esb" action="reset"/>`
	)
	for name, tt := range map[string]struct {
		live, persistent string
		want             []string
	}{
		"attached": {root + more, root, []string{
			"devices.host_devices.hostdev0", "devices.watchdog", "disks.vdb",
			"interfaces.net0",
		}},
		"defined as well":    {root + more, root + more, nil},
		"for the next start": {root, root + more, nil},
		"renamed":            {root, boot, nil},
	} {
		if got := OnlyRunning(definition(tt.live), definition(tt.persistent)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
