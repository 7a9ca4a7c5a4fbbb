package virtualmachine

import (
	"strings"
	"testing"
)

func TestPlan_namesTheDiskThatNobodyChoseToBootFrom(t *testing.T) {
	t.Parallel()
	data, root := in{"file": "/srv/data.raw"}, in{"file": "/srv/root.qcow2"}
	empty, image := in{"pool": "vms", "size": "1Gi"}, in{"pool": "vms", "image": "vms/debian.qcow2"}
	tests := map[string]struct {
		declared in
		warned   string
	}{
		"not chosen":    {declared: in{"disks": in{"data": data, "root": root}}, warned: `boots from disk "data"`},
		"one disk":      {declared: in{"disks": in{"root": root}}},
		"a drive more":  {declared: in{"disks": in{"iso": in{"file": "/a.iso", "device": "cdrom"}, "root": root}}},
		"chosen":        {declared: in{"disks": in{"data": data, "root": in{"file": "/srv/root.raw", "boot_order": 1}}}},
		"one has data":  {declared: in{"disks": in{"data": empty, "root": image}}},
		"two have data": {declared: in{"disks": in{"a": empty, "data": data, "root": image}}, warned: `3 disks and none`},
		"not the empty": {declared: in{"disks": in{"a": empty, "data": data, "root": image}}, warned: `from disk "data"`},
		"a file":        {declared: in{"disks": in{"a": empty, "data": data}}, warned: `boots from disk "a"`},
		"none has data": {declared: in{"disks": in{"a": empty, "b": empty}}, warned: `boots from disk "a"`},
		"direct kernel": {declared: in{"disks": in{"data": data, "root": root}, "kernel": in{"path": "/srv/vmlinuz"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := diagText(planning{config: modelOf(t, minimal.with(tt.declared))}.plan().diags)
			if (tt.warned == "") != (got == "") || !strings.Contains(got, tt.warned) {
				t.Errorf("diagnostics %q, want %q", got, tt.warned)
			}
		})
	}
}
