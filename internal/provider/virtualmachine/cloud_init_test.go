package virtualmachine

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// withSeed is a VM with a disk of its own and a medium.
func withSeed(changes in) in {
	return minimal.with(in{
		"disks":      in{"root": in{"pool": "vms", "size": "1Gi"}},
		"cloud_init": in{"user_data": "#cloud-config\n{}\n"}.with(changes),
	})
}

// A release that has more attributes doesn't take the media of existing VMs for changed.
func TestFirstBootDigest_newAttribute(t *testing.T) {
	t.Parallel()
	more := maps.Clone(cloudInitAttributes)
	more["new"] = schema.StringAttribute{Optional: true}
	declared := modelOf(t, withSeed(nil)).CloudInit
	if before, after := firstBootDigest(cloudInitAttributes, declared), firstBootDigest(more, declared); before != after {
		t.Errorf("the digest was %s and is %s", before, after)
	}
}

// A medium is planned as it is declared, without what is write-only, and what is on the host is told from it by what is
// recorded there.
func TestCloudInit_planAndDrift(t *testing.T) {
	t.Parallel()
	secret := func(changes in) in {
		return withSeed(in{
			"user_data": nil, "user_data_wo": "#cloud-config\npassword: hunter2\n", "user_data_wo_version": "1",
		}.with(changes))
	}
	config := secret(nil)
	state := stateAfterApply(t, config)
	said := state.CloudInit.String()
	if strings.Contains(said, "hunter2") || !strings.Contains(said, `"user_data_wo_version":"1"`) {
		t.Errorf("the state has %s", said)
	}
	desired := modelOf(t, config).toFleet(nil)
	if d := desired.OwnDisks[domain.MediumKey]; d.Pool != "vms" || d.Content == "" {
		t.Errorf("asked for is %+v", d)
	}
	said = fmt.Sprintf("%v %+v %#v", desired.CloudInit, desired.CloudInit, desired)
	if strings.Contains(said, "hunter2") {
		t.Error("a wish that is printed shows the content")
	}
	for name, test := range map[string]struct {
		config  in
		changed bool
	}{
		"the same":            {config, false},
		"another secret":      {secret(in{"user_data_wo": "#!/x"}), false},
		"another version":     {secret(in{"user_data_wo": "#!/x", "user_data_wo_version": "2"}), true},
		"another instance id": {secret(in{"user_data_wo": nil, "instance_id": "i-2"}), true},
		"none":                {minimal.with(in{"disks": in{"root": in{"pool": "vms", "size": "1Gi"}}}), true},
	} {
		p := planning{config: modelOf(t, test.config), state: state, live: vmAfterApply(t, config).LiveSpec}
		o := p.plan()
		if o.changed != test.changed || o.diags.HasError() || len(o.replace) > 0 || o.planned.RestartRequired.ValueBool() {
			t.Errorf("%s: changed: %v, %s", name, o.changed, diagText(o.diags))
		}
		if again := name == "another instance id"; strings.Contains(diagText(o.diags), "first boot again") != again {
			t.Errorf("%s: does the guest run its first boot again? %s", name, diagText(o.diags))
		}
	}
	var now model
	for name, change := range map[string]func(*domain.Spec, *domain.OwnDisk){
		"ejected": func(s *domain.Spec, _ *domain.OwnDisk) { s.Disks[domain.MediumKey] = domain.Disk{Device: "cdrom"} },
		"another": func(_ *domain.Spec, o *domain.OwnDisk) { o.Content = "other" },
		"half":    func(_ *domain.Spec, o *domain.OwnDisk) { o.Creating = true },
	} {
		vm := vmAfterApply(t, config)
		record := vm.Metadata.OwnDisks[domain.MediumKey]
		change(vm.LiveSpec, &record)
		vm.Metadata.OwnDisks[domain.MediumKey] = record
		now.fromFleet(observation{vm: vm}, state)
		if now.CloudInit.Equal(state.CloudInit) {
			t.Errorf("%s: the state still has %s", name, now.CloudInit)
		}
	}
	now.fromFleet(observation{vm: vmAfterApply(t, config)}, state)
	if !now.CloudInit.Equal(state.CloudInit) || len(now.Disks.Elements()) != 1 {
		t.Errorf("as it was: %s, %s", now.CloudInit, now.Disks)
	}
}

// The guest runs its first boot again if the ID that cloud-init reads changes, wherever that is declared. Nothing is
// said if the ID isn't known.
func TestCloudInit_instance(t *testing.T) {
	t.Parallel()
	const uuid = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10"
	id := func(id string) in { return in{"instance_id": id} }
	data := func(text string) in { return in{"meta_data": text} }
	secret := in{"meta_data_wo": "instance-id: b\n", "meta_data_wo_version": "1"}
	for name, test := range map[string]struct {
		was, is in
		want    string
	}{
		"new":                           {nil, id("a"), `from "` + uuid + `" to "a"`},
		"no longer":                     {id("a"), nil, `from "a" to "` + uuid + `"`},
		"the VM's":                      {nil, id(uuid), ""},
		"empty":                         {nil, id(""), ""},
		"another in the meta data":      {data("instance-id: a\n"), data("instance-id: b\n"), `from "a" to "b"`},
		"no longer in the meta data":    {data("instance-id: a\n"), data("x: 1\n"), `from "a" to "` + uuid + `"`},
		"from the meta data, the same":  {data("instance-id: a\n"), id("a"), ""},
		"from the attribute, the same":  {id("a"), data("{instance-id: a}"), ""},
		"other meta data":               {data("instance-id: a\n"), data("instance-id: a\nx: 1\n"), ""},
		"unknown":                       {id("a"), in{"instance_id": unknownMark}, ""},
		"unknown meta data":             {id("a"), in{"meta_data": unknownMark}, ""},
		"secret meta data":              {id("a"), secret, ""},
		"secret meta data before":       {secret, data("instance-id: a\n"), ""},
		"an attribute and unknown data": {id("a"), in{"instance_id": "b", "meta_data": unknownMark}, `from "a" to "b"`},
		"an attribute after secret":     {secret.with(id("b")), id("a"), `from "b" to "a"`},
	} {
		was := withSeed(test.was)
		p := planning{
			config: modelOf(t, withSeed(test.is)), state: stateAfterApply(t, was), live: vmAfterApply(t, was).LiveSpec,
		}
		said := diagText(p.plan().diags)
		if warned := strings.Contains(said, "first boot again"); warned != (test.want != "") ||
			!strings.Contains(said, test.want) {
			t.Errorf("%s: %q; want %q", name, said, test.want)
		}
	}
}

// A medium that was to be removed is in the state until no volume of it is left. So the next plan shows the removal.
func TestCloudInit_left(t *testing.T) {
	t.Parallel()
	config, without := withSeed(nil), withSeed(nil).without("cloud_init")
	const file = "/srv/vms/medium"
	drive := func(has bool) domain.Disk {
		if has {
			return domain.Disk{Device: "cdrom", Source: domain.DiskSource{File: file}}
		}
		return domain.Disk{Device: "cdrom"}
	}
	for name, test := range map[string]struct {
		prior            in
		persistent, live bool // which definitions still have it
		retired          bool // another medium had replaced it
		want             string
	}{
		"an imported VM":      {without, true, true, false, ""},
		"a locked tray":       {without, false, true, false, "vms/cloud-init"},
		"not deleted":         {without, false, false, false, "vms/cloud-init"},
		"replaced":            {without, false, false, true, "vms/cloud-init"},
		"killed":              {config, false, true, false, "vms/cloud-init"},
		"killed and released": {config, false, false, false, "vms/cloud-init"},
		"ejected by hand":     {config, true, false, false, "vms/cloud-init"},
	} {
		vm := vmAfterApply(t, config)
		vm.HostUUID = "here"
		record := vm.Metadata.OwnDisks[domain.MediumKey]
		record.HostUUID, record.Path = "here", file
		vm.Metadata.OwnDisks = map[string]domain.OwnDisk{domain.MediumKey: record}
		if test.retired {
			vm.Metadata.OwnDisks = map[string]domain.OwnDisk{domain.MediumKey + ".web": record}
		}
		vm.PersistentSpec.Disks[domain.MediumKey] = drive(test.persistent)
		vm.LiveSpec.Disks[domain.MediumKey] = drive(test.live)
		var now, again model
		now.fromFleet(observation{vm: vm}, stateAfterApply(t, test.prior))
		again.fromFleet(observation{vm: vm}, &now)
		if got := text(open(now.CloudInit).string("pool")); got != test.want || !again.CloudInit.Equal(now.CloudInit) {
			t.Errorf("%s: the state has %s, then %s; want %q", name, now.CloudInit, again.CloudInit, test.want)
		}
		o := planning{config: modelOf(t, without), state: &now, live: vm.LiveSpec}.plan()
		removes := o.want.Medium != nil && *o.want.Medium == domain.DiskSource{}
		if want := test.want != ""; removes != want || want && !o.changed || o.diags.HasError() {
			t.Errorf("%s: changed: %v, removes: %v, %s", name, o.changed, removes, diagText(o.diags))
		}
		if o := (planning{config: modelOf(t, config), state: &now, live: vm.LiveSpec}).plan(); !o.changed {
			t.Errorf("%s: declared again, it isn't planned", name)
		}
		// A volume that another host may use stays, with a warning.
		if diags := unmetChanges(&now, stateAfterApply(t, without), stateAfterApply(t, config)); diags.HasError() {
			t.Errorf("%s: %s", name, diagText(diags))
		}
	}
}

// A running VM without the drive is restarted for it, if that is allowed.
func TestCloudInit_drive(t *testing.T) {
	t.Parallel()
	without := minimal.with(in{"disks": in{"root": in{"pool": "vms", "size": "1Gi"}}})
	live := vmAfterApply(t, without).LiveSpec
	p := planning{config: modelOf(t, withSeed(nil)), state: stateAfterApply(t, without), live: live}
	if o := p.plan(); !strings.Contains(diagText(o.diags), "Change needs a restart") {
		t.Errorf("got %s", diagText(o.diags))
	}
}

func TestCloudInit_pool(t *testing.T) {
	t.Parallel()
	for want, disks := range map[string]in{
		`"a"`:       {"x": in{"pool": "b", "size": "1Gi"}, "y": in{"pool": "a", "size": "1Gi", "boot_order": 1}},
		`"b"`:       {"a": in{"file": "/a"}, "x": in{"volume": "b/x"}, "y": in{"pool": "c", "size": "1Gi"}},
		`"d"`:       {"a": in{"volume": "iso/x", "device": "cdrom"}, "x": in{"pool": "d", "size": "1Gi"}},
		"<null>":    {"a": in{"volume": "/a"}},
		"<unknown>": {"a": in{"pool": unknownMark, "size": "1Gi"}, "b": in{"pool": "b", "size": "1Gi"}},
	} {
		m := modelOf(t, minimal.with(in{"disks": disks, "cloud_init": in{}}))
		if got := m.firstBootPool(m.CloudInit).String(); got != want {
			t.Errorf("the pool is %s; want %s", got, want)
		}
		if said := diagText(m.validate()); strings.Contains(said, "Set pool to the storage pool") != (want == "<null>") {
			t.Errorf("%s: %s", want, said)
		}
	}
}

func TestCloudInit_validate(t *testing.T) {
	t.Parallel()
	secret := in{"user_data": nil, "user_data_wo_version": "1"}
	for name, test := range map[string]struct {
		config in
		want   string
	}{
		"fine":           {withSeed(nil), ""},
		"unknown":        {withSeed(in{"user_data": unknownMark, "meta_data": unknownMark}), ""},
		"no header":      {withSeed(in{"user_data": "users: []"}), "cloud_init.user_data: "},
		"secret":         {withSeed(secret.with(in{"user_data_wo": "#cloud-config\nhunter2: ["})), "user_data_wo: Line 2"},
		"network config": {withSeed(in{"network_config": "version: 3"}), "cloud_init.network_config: "},
		"twice": {
			withSeed(in{"user_data_wo": "#!/x", "user_data_wo_version": "1"}), "Only one of user_data and user_data_wo",
		},
		"no version": {withSeed(secret.with(in{"vendor_data_wo": "#!/x"})), "cloud_init.vendor_data_wo_version: "},
		"no version of meta data": {
			withSeed(in{"meta_data": nil, "meta_data_wo": "a: b"}), "cloud_init.meta_data_wo_version: ",
		},
		"secret meta data": {
			withSeed(in{"meta_data": nil, "meta_data_wo": "hunter2: [", "meta_data_wo_version": "1"}),
			"cloud_init.meta_data_wo: ",
		},
		"instance id": {withSeed(in{"instance_id": "a", "meta_data": "instance-id: b"}), "cloud_init.meta_data: "},
		"a disk's name": {
			withSeed(nil).with(in{"disks": in{domain.MediumKey: in{"pool": "vms", "size": "1Gi"}}}), "belongs to what is made",
		},
	} {
		said := diagText(modelOf(t, test.config).validate())
		if test.want == "" && said != "" || !strings.Contains(said, test.want) || strings.Contains(said, "hunter2") {
			t.Errorf("%s: %q; want %q", name, said, test.want)
		}
	}
	// It is set in the model, because to write it as JSON and read it again takes seconds with the race detector.
	large := modelOf(t, withSeed(nil))
	parts := open(large.CloudInit)
	parts["user_data"] = types.StringValue("#!" + strings.Repeat("x", 17<<20))
	large.CloudInit = types.ObjectValueMust(attributeTypes(large.CloudInit), parts)
	if said := diagText(large.validate()); !strings.Contains(said, "at most 16777216 are accepted") {
		t.Errorf("too large: %q", said)
	}
}

func TestHostname(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"web-1": "web-1", "web.example.net": "web.example.net", "web_1": "", "-web": "", "web.": "", "a b": "",
		strings.Repeat("a", 64): "",
	} {
		if got := hostname(name); got != want {
			t.Errorf("%q gives %q; want %q", name, got, want)
		}
	}
}

// TestCloudInit_driveOfAProfile: a guest without virtio drivers finds the medium in a drive like its disks. The first
// disk keeps its name.
func TestCloudInit_driveOfAProfile(t *testing.T) {
	t.Parallel()
	scsi, sata, ide := "vda scsi sda", "sda sata sdb", "hda ide hdb"
	wants := map[string]string{
		"": scsi, "linux": scsi, "linux-efi": scsi, "linux-legacy": ide,
		"windows-11": sata, "windows-10": sata, "windows-server": sata,
		"windows-11-virtio": scsi, "windows-10-virtio": scsi, "windows-server-virtio": scsi,
	}
	for _, profile := range append(domain.ProfileNames(), "") {
		config := withSeed(nil)
		if profile != "" {
			config = config.with(in{"profile": profile})
		}
		disks := mustMake(t, modelOf(t, config).withProfile()).PersistentSpec.Disks
		drive := disks[domain.MediumKey]
		if got := disks["root"].Target + " " + drive.Bus + " " + drive.Target; got != wants[profile] {
			t.Errorf("%q: the disk and the drive are %s, want %s", profile, got, wants[profile])
		}
		planCase{before: config, config: config}.run(t)
	}
}

// A medium that is as declared isn't a change of a VM that resumes from saved memory, nor one that a running VM lacks.
// Another one in its drive is.
func TestCloudInit_observedMedium(t *testing.T) {
	t.Parallel()
	config := withSeed(nil)
	for name, test := range map[string]struct{ saved, other bool }{
		"saved": {saved: true}, "saved with another": {saved: true, other: true},
		"running": {}, "running with another": {other: true},
	} {
		vm, state := vmAfterApply(t, config), stateAfterApply(t, config)
		seen, medium, drive := vm.LiveSpec, vm.Metadata.OwnDisks[domain.MediumKey], vm.LiveSpec.Disks[domain.MediumKey]
		medium.Path, drive.Source.File = "/srv/vms/seed", "/srv/vms/seed"
		if test.other {
			drive.Source.File = "/other"
		}
		vm.Metadata.OwnDisks[domain.MediumKey], seen.Disks[domain.MediumKey] = medium, drive
		p := planning{config: modelOf(t, config), state: state, own: vm.Metadata.OwnDisks}
		if test.saved {
			p.saved, p.savedAs = true, seen
			state.Status, state.Phase = types.StringValue(status.StatusStopped), types.StringValue(status.PhaseSucceeded)
		} else {
			p.live, state.RestartRequired = seen, types.BoolValue(true)
		}
		if said := diagText(p.plan().diags); strings.Contains(said, "disks.cloud-init") != test.other {
			t.Errorf("%s: the plan says %s", name, said)
		}
	}
}
