package virtualmachine

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// ownState is the state of a VM with a disk that was made with it.
func ownState(t *testing.T, disk in) *model {
	t.Helper()
	return ownStateOf(t, in{"root": disk})
}

// ownStateOf returns the state of a VM with own disks.
func ownStateOf(t *testing.T, disks in) *model {
	t.Helper()
	config := minimal.with(in{"disks": disks})
	planned := planning{config: modelOf(t, config)}.plan().planned
	vm := vmAfterApply(t, config)
	vm.Metadata.OwnDisks = ownDisks(modelOf(t, config).Disks)
	for key, own := range vm.Metadata.OwnDisks {
		own.Volume, own.Path = "web-"+key, "/srv/vms/web-"+key
		vm.Metadata.OwnDisks[key] = own
		for _, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
			d := spec.Disks[key]
			d.Source = domain.DiskSource{File: own.Path}
			spec.Disks[key] = d
		}
	}
	return stateAfterCreate(observation{vm: vm}, &planned)
}

func TestOwnDisk_isPlannedAsDeclared(t *testing.T) {
	t.Parallel()
	disk := in{"pool": "vms", "image": "vms/debian-012345678901", "size": "20Gi"}
	state := ownState(t, disk)
	at := open(elements(state.Disks)["root"])
	if at.string("pool").ValueString() != "vms" || at.string("path").ValueString() != "/srv/vms/web-root" ||
		!at.string("file").IsNull() {
		t.Errorf("the state has %v", at)
	}
	for name, test := range map[string]struct {
		change in
		want   string
		alters bool
	}{
		"nothing":          {in{}, "", false},
		"another notation": {in{"size": "20480Mi"}, "", false},
		"grown":            {in{"size": "30Gi"}, "", true},
		"shrunk":           {in{"size": "10Gi"}, "20Gi", true},
		"another image":    {in{"image": "vms/debian-999999999999"}, "created again", true},
		"unknown image":    {in{"image": unknownMark}, "", true},
		"another pool":     {in{"pool": "fast"}, "created again", true},
		"a copy":           {in{"clone": "full"}, "created again", true},
		"an overlay":       {in{"clone": "overlay"}, "", true},
		"kept":             {in{"on_destroy": "keep"}, "", true},
		"thick":            {in{"clone": "full", "preallocation": "full"}, "created again", true},
		"thin in words":    {in{"preallocation": "off"}, "", true},
	} {
		config := modelOf(t, minimal.with(in{"disks": in{"root": disk.with(test.change)}}))
		p := planning{config: config, state: state, hosts: []string{"kvm1"}}
		o := p.plan()
		if o.changed != test.alters || len(o.replace) > 0 {
			t.Errorf("%s: changed %t, replaced %v", name, o.changed, o.replace)
		}
		if warned := strings.Contains(diagText(o.diags), "may not follow its image"); warned != (name == "unknown image") {
			t.Errorf("%s: %v", name, o.diags)
		}
		diags := p.validatePlanned(&o.planned)
		if test.want == "" && diags.HasError() || test.want != "" && !diags.HasError() {
			t.Errorf("%s: %v", name, diags)
		}
		for _, d := range diags {
			if !strings.Contains(d.Summary()+d.Detail(), test.want) {
				t.Errorf("%s: %s; want %q", name, d.Detail(), test.want)
			}
		}
		if got := config.spec(state).Disks["root"].Source.File; test.want == "" && got != "/srv/vms/web-root" {
			t.Errorf("%s: the disk would be switched to %q", name, got)
		}
	}
}

// A disk that is only called something else keeps its data; one that is declared no longer loses them, and the plan
// says so.
func TestOwnDisk_renamedOrRemoved(t *testing.T) {
	t.Parallel()
	disk := in{"pool": "vms", "size": "20Gi"}
	state := ownState(t, disk)
	for name, test := range map[string]struct {
		disks in
		// at is where the disk called sys is, warns whether data go.
		at    string
		warns bool
	}{
		"renamed":              {in{"sys": disk}, "/srv/vms/web-root", false},
		"renamed, two alike":   {in{"sys": disk, "data": disk}, "", true},
		"renamed and grown":    {in{"sys": disk.with(in{"size": "30Gi"})}, "", true},
		"another pool":         {in{"sys": disk.with(in{"pool": "fast"})}, "", true},
		"one more":             {in{"root": disk, "sys": disk}, "", false},
		"removed":              {in{}, "", true},
		"no disks declared":    {nil, "", false},
		"handed over":          {in{"sys": in{"file": "/srv/vms/web-root"}}, "", false},
		"handed over in place": {in{"root": in{"file": "/srv/vms/web-root"}}, "", false},
		"handed to its id":     {in{"root": in{"volume": "vms/web-root"}}, "", false},
		"handed to its path":   {in{"root": in{"volume": "/srv/vms/web-root"}}, "", false},
		"another volume":       {in{"root": in{"volume": "vms/other"}}, "", true},
		"another file":         {in{"root": in{"file": "/srv/vms/other"}}, "", true},
	} {
		config := minimal.with(in{})
		if test.disks != nil {
			config = minimal.with(in{"disks": test.disks})
		}
		p := planning{config: modelOf(t, config), state: state, hosts: []string{"kvm1"}}
		o := p.plan()
		if got := text(open(elements(o.planned.Disks)["sys"]).string("path")); got != test.at {
			t.Errorf("%s: it is planned at %q, want %q", name, got, test.at)
		}
		if warned := strings.Contains(diagText(o.diags), "deleted with their data"); warned != test.warns {
			t.Errorf("%s: warned %t, want %t: %s", name, warned, test.warns, diagText(o.diags))
		}
		says := "disks.sys is disks.root until now: /srv/vms/web-root"
		p.saved = true
		got := diagText(p.plan().diags)
		if kept := strings.Contains(got, "memory is saved"); kept != test.warns ||
			strings.Contains(got, "deleted with their data: ") {
			t.Errorf("%s: a saved guest may use its disks, and the plan says: %s", name, got)
		}
		if renamed := strings.Contains(diagText(o.diags), says); renamed != (test.at != "") {
			t.Errorf("%s: the plan names both keys: %t; %s", name, renamed, diagText(o.diags))
		}
		if removes := p.config.toFleet(state).Removes; (len(removes) > 0) != test.warns {
			t.Errorf("%s: the apply deletes %q; warned %t", name, removes, test.warns)
		}
		if test.at != "" && p.config.spec(state).Disks["sys"].Source.File != test.at {
			t.Errorf("%s: it gets another file", name)
		}
	}
}

// A disk that is renamed while another one of its size comes or goes is told by the rest of its declaration. One with
// another serial number is another one.
func TestOwnDisk_renamedAmongOthers(t *testing.T) {
	t.Parallel()
	disk := in{"pool": "vms", "size": "20Gi"}
	usb, scsi := disk.with(in{"bus": "usb"}), disk.with(in{"bus": "scsi", "serial": "x"})
	serial := func(number string) in { return disk.with(in{"serial": number}) }
	for name, test := range map[string]struct {
		have, want in
		// at is whose file the disk called new has, "" for none. removed are deleted.
		at      string
		removed []string
	}{
		"another is removed": {in{"a": scsi, "b": usb}, in{"new": scsi}, "a", []string{"b"}},
		"another is added":   {in{"a": scsi}, in{"new": scsi, "b": usb}, "a", nil},
		"one for another": {
			in{"a": scsi, "b": disk.with(in{"size": "1Gi"})}, in{"new": scsi, "c": usb}, "a", []string{"b"},
		},
		"by the bus":           {in{"a": disk, "b": usb}, in{"new": usb}, "b", []string{"a"}},
		"by the default bus":   {in{"a": disk, "b": usb}, in{"new": disk}, "a", []string{"b"}},
		"by the serial number": {in{"a": serial("A"), "b": serial("B")}, in{"new": serial("B")}, "b", []string{"a"}},
		"by no serial number":  {in{"a": serial("A"), "b": disk}, in{"new": disk}, "b", []string{"a"}},
		"by the boot order":    {in{"a": disk.with(in{"boot_order": 1}), "b": disk}, in{"new": disk}, "b", []string{"a"}},
		"both renamed": {
			in{"a": serial("A"), "b": serial("B")}, in{"new": serial("B"), "c": serial("A")}, "b", nil,
		},
		"the rest is one":          {in{"a": scsi, "b": usb}, in{"c": scsi, "new": disk}, "b", nil},
		"another serial number":    {in{"a": serial("A")}, in{"new": serial("B")}, "", []string{"a"}},
		"and one without":          {in{"a": serial("A")}, in{"b": serial("B"), "new": disk}, "", []string{"a"}},
		"a serial number is added": {in{"a": disk}, in{"new": serial("A")}, "a", nil},
		"another bus":              {in{"a": disk}, in{"new": usb}, "a", nil},
		"two alike":                {in{"a": disk, "b": disk}, in{"new": disk}, "", []string{"a", "b"}},
		"two alike are added":      {in{"a": scsi}, in{"new": scsi, "b": scsi}, "", []string{"a"}},
		"a serial number to come":  {in{"a": serial("A")}, in{"new": serial(unknownMark)}, "", []string{"a"}},
	} {
		state := ownStateOf(t, test.have)
		p := planning{config: modelOf(t, minimal.with(in{"disks": test.want})), state: state, hosts: []string{"kvm1"}}
		o, d, at := p.plan(), p.config.toFleet(state), ""
		if test.at != "" {
			at = "/srv/vms/web-" + test.at
		}
		if got := text(open(elements(o.planned.Disks)["new"]).string("path")); got != at {
			t.Errorf("%s: it is planned at %q, want %q", name, got, at)
		}
		if d.Renamed["new"] != test.at || !slices.Equal(d.Removes, test.removed) {
			t.Errorf("%s: the apply renames %q, and removes %q", name, d.Renamed, d.Removes)
		}
		for key := range test.have {
			gone := strings.Contains(diagText(o.diags), "\n  - disks."+key+": /srv/vms/web-"+key)
			if want := slices.Contains(test.removed, key); gone != want {
				t.Errorf("%s: the plan says that %s is deleted: %t, want %t; %s", name, key, gone, want, diagText(o.diags))
			}
		}
	}
}

// A disk that is kept and no longer declared is named by the plan, because no later plan looks for it. A disk that gets
// another key and another size at once counts as a new one.
func TestOwnDisk_keptIsNamed(t *testing.T) {
	t.Parallel()
	disk := in{"pool": "vms", "size": "20Gi", "on_destroy": "keep"}
	state := ownState(t, disk)
	own := map[string]domain.OwnDisk{"root": {Pool: "vms", Volume: "web-root", Path: "/srv/vms/web-root"}}
	for name, test := range map[string]struct {
		disks in
		says  bool
	}{
		"removed":           {in{}, true},
		"renamed and grown": {in{"sys": disk.with(in{"size": "30Gi"})}, true},
		"renamed":           {in{"sys": disk}, false},
		"grown":             {in{"root": disk.with(in{"size": "30Gi"})}, false},
		"handed over":       {in{"sys": in{"file": "/srv/vms/web-root"}}, false},
	} {
		p := planning{
			config: modelOf(t, minimal.with(in{"disks": test.disks})), state: state, hosts: []string{"kvm1"}, own: own,
		}
		got := diagText(p.plan().diags)
		if says := strings.Contains(got, `disks.root: /srv/vms/web-root (volume = "vms/web-root")`); says != test.says ||
			strings.Contains(got, "deleted with their data") {
			t.Errorf("%s: the plan names it: %t, want %t; %s", name, says, test.says, got)
		}
	}
}

// Keys that an own disk and a file exchange don't exchange the disks: what is planned for each is what the fleet does.
func TestOwnDisk_keysOfFiles(t *testing.T) {
	t.Parallel()
	disk, file := in{"pool": "vms", "size": "20Gi"}, in{"file": "/srv/vms/data"}
	state := ownState(t, disk)
	disks := elements(state.Disks)
	other := stateWith(t, file, "")
	disks["data"] = elements(other.Disks)["root"]
	state.Disks = mapOf(diskType, disks)
	for name, test := range map[string]struct {
		disks in
		// sources are the planned ones of root, data and sys.
		sources, refused string
		removes          bool
	}{
		"kept":     {in{"root": disk, "data": file}, "/srv/vms/web-root /srv/vms/data ", "", false},
		"swapped":  {in{"root": file, "data": disk}, "/srv/vms/data /srv/vms/data ", "data and root are the same", true},
		"takes up": {in{"data": disk}, " /srv/vms/data ", "", true},
		"makes way": {
			in{"root": in{"file": "/other"}, "data": file, "sys": disk},
			"/other /srv/vms/data " + domain.UnknownFile, "", true,
		},
	} {
		p := planning{config: modelOf(t, minimal.with(in{"disks": test.disks})), state: state, hosts: []string{"kvm1"}}
		o := p.plan()
		spec, d := p.config.spec(state), p.config.toFleet(state)
		sources := spec.Disks["root"].Source.File + " " + spec.Disks["data"].Source.File + " " + spec.Disks["sys"].Source.File
		if sources != test.sources || slices.Contains(d.Removes, "root") != test.removes {
			t.Errorf("%s: the disks are %q, and %q are removed", name, sources, d.Removes)
		}
		if said := diagText(p.validatePlanned(&o.planned)); !strings.Contains(said, test.refused) ||
			test.refused == "" && said != "" {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// A plan that doesn't know which disks are declared, or whether one has a pool, can't tell which are deleted, and says
// which may be.
func TestOwnDisk_removedByUnknownDisks(t *testing.T) {
	t.Parallel()
	disk := in{"pool": "vms", "size": "20Gi"}
	for name, test := range map[string]struct {
		disk  in
		warns bool
	}{
		"deleted": {disk, true},
		"kept":    {disk.with(in{"on_destroy": "keep"}), false},
	} {
		config := modelOf(t, minimal)
		config.Disks = types.MapUnknown(config.Disks.ElementType(t.Context()))
		// With a pool that turns out to be null, root is another disk, unless it has the same file.
		unsettled := func(file string) *model {
			return modelOf(t, minimal.with(in{"disks": in{"root": in{"pool": unknownMark, "file": file}}}))
		}
		for _, config := range []*model{config, unsettled("/srv/other"), unsettled("/srv/vms/web-root")} {
			warns := test.warns && !config.Disks.Equal(unsettled("/srv/vms/web-root").Disks)
			p := planning{config: config, state: ownState(t, test.disk), hosts: []string{"kvm1"}}
			got := diagText(p.plan().diags)
			if strings.Contains(got, "may be deleted with their data") != warns ||
				strings.Contains(got, "disks.root: /srv/vms/web-root") != warns {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
}

// With a host that was given up go the disks that were made with the VM: that the next VM has new ones is said. What
// those are like follows from the configuration, which may name another image than the state, also one of which
// ignore_changes says that the old disk didn't get it.
func TestOwnDisk_lostWithItsHost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disk   in
		fenced []string
		says   string
	}{
		"empty":          {in{"pool": "vms", "size": "1Gi"}, []string{"kvm1"}, "root (storage pool vms), created empty"},
		"from an image":  {in{"pool": "vms", "image": "vms/debian-0"}, []string{"kvm1"}, "created from image vms/debian-0"},
		"moved since":    {in{"pool": "vms", "size": "1Gi"}, []string{"kvm2"}, "moved to a host that is fenced (kvm2)"},
		"no fenced host": {in{"pool": "vms", "size": "1Gi"}, nil, ""},
		"not its own":    {in{"file": "/srv/root.qcow2"}, []string{"kvm1"}, ""},
	} {
		m := modelOf(t, minimal.with(in{"disks": in{"root": test.disk}}))
		m.CurrentHost = types.StringValue("kvm1")
		got := diagText(m.warnLost(test.fenced))
		if (got == "") != (test.says == "") || !strings.Contains(got, test.says) ||
			got != "" && (!strings.Contains(got, text(m.Name)) || !strings.HasPrefix(got, "Warning: ") ||
				!strings.Contains(got, "the image that the plan shows")) {
			t.Errorf("%s: %q, want %q", name, got, test.says)
		}
	}
}

// The files of a VM whose definition is gone may still be there. The plan says so before the next VM has empty disks.
func TestOwnDisk_madeAnew(t *testing.T) {
	t.Parallel()
	own := in{"pool": "vms", "size": "1Gi", "path": "/srv/vms/web-root"}
	for name, test := range map[string]struct {
		disk   in
		fenced []string
		says   string
	}{
		"empty":         {own, nil, "root: /srv/vms/web-root, created empty"},
		"from an image": {own.with(in{"image": "vms/debian-0"}), nil, "web-root, created from image vms/debian-0"},
		"fenced":        {own, []string{"kvm1"}, ""},
		"other fenced":  {own, []string{"kvm2"}, "root: /srv/vms/web-root"},
		"not its own":   {in{"file": "/srv/root.qcow2"}, nil, ""},
	} {
		m := modelOf(t, minimal.with(in{"disks": in{"root": test.disk}}))
		m.CurrentHost = types.StringValue("kvm1")
		got := diagText(m.warnMadeAnew(test.fenced))
		if (got == "") != (test.says == "") || !strings.Contains(got, test.says) ||
			got != "" && (!strings.Contains(got, `on host "kvm1"`) || !strings.HasPrefix(got, "Warning: ")) {
			t.Errorf("%s: %q, want %q", name, got, test.says)
		}
	}
}

// What a host has under the name of a disk of a VM that is gone may be another VM's work, or an old state of this one.
// No new VM begins with it without a word in the plan.
func TestWarnUsedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disks in
		says  []string
	}{
		"a file":                             {in{"root": in{"file": "/srv/root.qcow2"}}, []string{"root: /srv/root.qcow2"}},
		"a volume":                           {in{"root": in{"volume": "vms/root"}}, []string{"root: vms/root"}},
		"a block device":                     {in{"root": in{"block": "/dev/vg/root"}}, []string{"root: /dev/vg/root"}},
		"some of them":                       {in{"a": in{"file": "/a"}, "b": in{"file": "/b"}}, []string{"a: /a", "b: /b"}},
		"made with the VM":                   {in{"root": in{"pool": "vms", "size": "1Gi"}}, nil},
		"on storage that every host reaches": {in{"root": in{"file": "/nfs/root", "shared": true}}, nil},
		"on a server": {
			in{"root": in{"network": in{"protocol": "nbd", "name": "d", "hosts": []string{"10.0.0.1:10809"}}}}, nil,
		},
		"a medium":  {in{"iso": in{"file": "/iso", "device": "cdrom"}}, nil},
		"only read": {in{"base": in{"file": "/base", "read_only": true}}, nil},
	} {
		m := modelOf(t, minimal.with(in{"disks": test.disks}))
		m.CurrentHost = types.StringValue("kvm1")
		got := diagText(m.warnReusedDisks())
		if (got == "") != (len(test.says) == 0) || got != "" && !strings.HasPrefix(got, "Warning: Disks are used again") {
			t.Errorf("%s: %q", name, got)
		}
		if got != "" {
			test.says = append(test.says, `"web"`, `"kvm1"`, "@disks")
		}
		for _, part := range test.says {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q doesn't say %q", name, got, part)
			}
		}
	}
}

func TestOwnDisk_validate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		disk in
		want string
	}{
		"empty":              {in{"pool": "vms", "size": "1Gi"}, ""},
		"of an image":        {in{"pool": "vms", "image": "vms/a"}, ""},
		"image to come":      {in{"pool": "vms", "image": unknownMark}, ""},
		"no size":            {in{"pool": "vms"}, "no room"},
		"no pool":            {in{"file": "/a", "size": "1Gi"}, "Only a disk with pool"},
		"two places":         {in{"file": "/a", "pool": "vms", "size": "1Gi"}, "Only one of"},
		"image by a path":    {in{"pool": "vms", "image": "/a"}, "virtfleet_image"},
		"clone of nothing":   {in{"pool": "vms", "size": "1Gi", "clone": "full"}, "nothing to clone"},
		"a drive":            {in{"pool": "vms", "size": "1Gi", "device": "cdrom"}, "Only disks"},
		"a raw overlay":      {in{"pool": "vms", "image": "vms/a", "format": "raw"}, "can't be raw"},
		"a raw copy":         {in{"pool": "vms", "image": "vms/a", "clone": "full", "format": "raw"}, ""},
		"the id of a volume": {in{"volume": "vms/data"}, ""},
		"thick":              {in{"pool": "vms", "size": "1Gi", "preallocation": "full"}, ""},
		"a thick copy":       {in{"pool": "vms", "image": "vms/a", "clone": "full", "preallocation": "full"}, ""},
		"a thick overlay":    {in{"pool": "vms", "image": "vms/a", "preallocation": "full"}, `Set clone = "full"`},
		"tables of raw":      {in{"pool": "vms", "size": "1Gi", "format": "raw", "preallocation": "metadata"}, "no tables"},
		"thick file":         {in{"file": "/a", "preallocation": "full"}, "Only a disk with pool"},
	} {
		diags := modelOf(t, minimal.with(in{"disks": in{"root": test.disk}})).validate()
		var said string
		for _, d := range diags {
			said += d.Detail() + "\n"
		}
		if test.want == "" && said != "" || !strings.Contains(said, test.want) {
			t.Errorf("%s: %q; want %q", name, said, test.want)
		}
	}
}

// An update that fails before it switches a disk to another volume leaves the former one in the state, so that the next
// plan shows the change again. A disk that was switched has the new one.
func TestDisk_volumeAfterFailedUpdate(t *testing.T) {
	t.Parallel()
	disks := func(volume, path string) types.Map {
		return modelOf(t, minimal.with(in{"disks": in{"data": in{"volume": volume, "path": path}}})).Disks
	}
	planned := elements(disks("vms/new", ""))
	a := open(planned["data"])
	a["path"] = types.StringUnknown()
	planned["data"] = types.ObjectValueMust(diskType.AttrTypes, a)
	plan := mapOf(diskType, planned)
	for name, tt := range map[string]struct{ before, now, want types.Map }{
		"unchanged": {disks("vms/old", "/vms/old"), disks("vms/new", "/vms/old"), disks("vms/old", "/vms/old")},
		"switched":  {disks("vms/old", "/vms/old"), disks("vms/new", "/vms/new"), disks("vms/new", "/vms/new")},
	} {
		if got := withVolumesNotApplied(tt.now, plan, tt.before); !got.Equal(tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPlan_strayDisks: only a change of the pool leaves a VM's own disk behind. A guest that runs on an overlay in
// another directory doesn't.
func TestPlan_strayDisks(t *testing.T) {
	t.Parallel()
	c := minimal.with(in{"disks": in{"root": in{"pool": "vms", "size": "1Gi"}}})
	moved := meta.PoolChange{From: "/vms/", To: "/other"}
	other := meta.PoolChange{OtherStorage: `source.name = "b" instead of "a"`}
	for name, tt := range map[string]struct {
		at, pool string
		change   meta.PoolChange
		want     string
	}{
		"unchanged":             {"/vms/root", "vms", meta.PoolChange{}, ""},
		"overlay elsewhere":     {"/backup/root.snap", "vms", meta.PoolChange{}, ""},
		"moved":                 {"/vms/root", "vms", moved, "is planned in /other."},
		"moved without overlay": {"/backup/root.snap", "vms", moved, ""},
		"other storage":         {"/vms/root", "vms", other, "is planned with " + other.OtherStorage},
		"another pool":          {"/vms/root", "images", moved, ""},
	} {
		state := stateAfterApply(t, c)
		disk := open(elements(state.Disks)["root"])
		disk["path"] = types.StringValue(tt.at)
		state.Disks = mapOf(diskType, map[string]types.Object{"root": types.ObjectValueMust(diskType.AttrTypes, disk)})
		p := planning{state: state, poolChange: func(host, pool string) (change meta.PoolChange) {
			if host == text(state.CurrentHost) && pool == tt.pool {
				change = tt.change
			}
			return change
		}}
		got := diagText(p.strayDisks(openAll(state.Disks)))
		if (got != "") != (tt.want != "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
