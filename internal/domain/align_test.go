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
