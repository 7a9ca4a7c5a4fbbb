package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// withScreen is a VM with a screen.
func withScreen(d placement.Desired) placement.Desired {
	d.Spec.Values = domain.Values{"devices.graphics.type": "vnc", "devices.graphics.listen": "socket"}

	return d
}

// What an interrupted creation left gets what has changed in the configuration since, although that isn't what it is
// recognized by: what is recorded of the VM, and the password of its screen.
func TestLab_interruptedCreateGetsWhatChanged(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)

	for name, tt := range map[string]struct {
		before, now *string
		started     bool
	}{
		"other password": {new("erstes"), new("zweites"), false},
		"first password": {nil, new("zweites"), false},
		"no password":    {new("erstes"), nil, false},
		"running":        {new("erstes"), new("zweites"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d := withScreen(light(t, l, strings.ReplaceAll(name, " ", "-"), map[string]string{"app": "web"}))
			d.GraphicsPassword = tt.before

			l.RemoveDomain(t, d.Spec.Name)

			left := leaveCreating(t, l, d, "kvm2")
			if tt.started {
				l.Virsh(t, "kvm2", "start", left)
			}

			d.GraphicsPassword, d.Metadata.Labels = tt.now, map[string]string{"app": "db"}
			d.Metadata.DeletionProtection = new(false)
			d.Placement.AntiAffinity = &placement.AntiAffinity{Labels: map[string]string{"app": "x"}, Required: true}

			vm, err := f.Create(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}

			if err := f.FinishCreate(t.Context(), vm); err != nil {
				t.Fatal(err)
			}

			now, err := f.FindNow(t.Context(), left, inventory.LastKnown{})
			if err != nil || !now.Active {
				t.Fatalf("%+v, %v; want it to run", now, err)
			}

			if m := now.Metadata; m.Labels["app"] != "db" || m.Avoids["app"] != "x" || m.DeletionProtection == nil ||
				m.Creating != nil {
				t.Errorf("recorded is %+v", m)
			}

			for _, form := range [][]string{{"--inactive"}, nil} {
				xml := l.Virsh(t, "kvm2", append([]string{"dumpxml", "--security-info", left}, form...)...)
				if has := strings.Contains(xml, "passwd='zweites'"); has != (tt.now != nil) ||
					strings.Contains(xml, "passwd=") != has {
					t.Errorf("%q: the password isn't as declared:\n%s", form, xml)
				}
			}
		})
	}
}

// What an interrupted creation left gets what the run strategy that is declared now gives a new VM, and keeps nothing
// of the earlier one.
func TestLab_interruptedCreateGetsTheRunStrategy(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)

	for _, tt := range []struct {
		was, is, onCrash   string
		autostart, started bool
	}{
		{"Always", "Manual", "destroy", false, true},
		{"Always", "Manual", "destroy", false, false},
		{"Manual", "Always", "restart", true, true},
		{"Always", "RerunOnFailure", "restart", false, true},
	} {
		d := light(t, l, strings.ToLower(tt.was+"-"+tt.is), nil)
		d.Metadata.RunStrategy = tt.was

		l.RemoveDomain(t, d.Spec.Name)

		left := leaveCreating(t, l, d, "kvm2")
		if tt.was == "Always" {
			l.Virsh(t, "kvm2", "autostart", left)
			l.Virsh(t, "kvm2", "set-lifecycle-action", left, "crash", "restart", "--config")
		}

		if tt.started {
			l.Virsh(t, "kvm2", "start", left)
		}

		f.ForgetAll()

		d.Metadata.RunStrategy = tt.is

		vm, err := f.Create(t.Context(), d)
		if err != nil || vm.UUID != left {
			t.Fatalf("%+v: %+v, %v", tt, vm, err)
		}

		if err := f.FinishCreate(t.Context(), vm); err != nil {
			t.Fatal(err)
		}

		info := l.Virsh(t, "kvm2", "dominfo", left)
		if has := !strings.Contains(info, "disable"); has != tt.autostart {
			t.Errorf("%+v: it has\n%s", tt, info)
		}

		for _, form := range [][]string{{"--inactive"}, nil} {
			xml := l.Virsh(t, "kvm2", append([]string{"dumpxml", left}, form...)...)
			if !strings.Contains(xml, "<on_crash>"+tt.onCrash+"</on_crash>") {
				t.Errorf("%+v, %q: on_crash isn't %s:\n%s", tt, form, tt.onCrash, xml)
			}
		}

		if tt.started && strings.Contains(info, "shut off") {
			t.Errorf("%+v: it is off", tt)
		}

		l.RemoveDomain(t, d.Spec.Name)
	}
}

// A screen that runs can't get its first password. The VM isn't completed without it.
func TestLab_interruptedCreateLacksPassword(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := withScreen(light(t, l, "screen", nil))

	l.RemoveDomain(t, d.Spec.Name)

	left := leaveCreating(t, l, d, "kvm2")
	l.Virsh(t, "kvm2", "start", left)

	d.GraphicsPassword = new("zweites")

	if vm, err := f.Create(t.Context(), d); vm != nil || !errors.Is(err, inventory.ErrBusy) ||
		!strings.Contains(err.Error(), "password") || !strings.Contains(errRemedy(err), "graphics_access as it was") {
		t.Fatalf("%+v, %v, %s", vm, err, errRemedy(err))
	}

	l.Virsh(t, "kvm2", "destroy", left)
	f.ForgetAll()

	vm, err := f.Create(t.Context(), d)
	if err != nil || vm.UUID != left || !vm.Active {
		t.Fatalf("%+v, %v", vm, err)
	}

	if err := f.FinishCreate(t.Context(), vm); err != nil {
		t.Fatal(err)
	}

	if xml := l.Virsh(t, "kvm2", "dumpxml", "--security-info", left); !strings.Contains(xml, "passwd='zweites'") {
		t.Errorf("it runs without the password:\n%s", xml)
	}
}

// A guest that ran once, before its creation was interrupted, isn't started again.
func TestLab_interruptedCreateRunsOnce(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	ends := func(how string) func(string) {
		return func(id string) {
			l.Virsh(t, "kvm2", "start", id)

			if how == "crashes" {
				name := strings.TrimSpace(l.Virsh(t, "kvm2", "domname", id))
				l.Run(t, "kvm2", "sh", "-c", "kill -KILL $(cat /run/libvirt/qemu/"+name+".pid)")
				lab.Await(t, "it to be off", func() bool {
					return strings.Contains(l.Virsh(t, "kvm2", "domstate", id), "shut off")
				})
			} else {
				l.Virsh(t, "kvm2", "destroy", id)
			}
		}
	}

	// libvirt, restarted since, doesn't know any more that the VM ran. The mark does.
	forgets := func(id string) {
		vm, err := f.FindNow(t.Context(), id, inventory.LastKnown{})
		if err != nil {
			t.Error(err)

			return
		}

		metadata := vm.Metadata
		metadata.Creating = new(*metadata.Creating)
		metadata.Creating.Started = true

		if _, err := records.WriteMetadata(t.Context(), vm, metadata); err != nil {
			t.Error(err)
		}
	}

	for name, tt := range map[string]struct {
		strategy string
		before   func(id string)
		starts   bool
	}{
		"once-new":      {"Once", func(string) {}, true},
		"once-ended":    {"Once", ends("ends"), false},
		"once-crashed":  {"Once", ends("crashes"), false},
		"once-unknown":  {"Once", forgets, false},
		"rerun-ended":   {"RerunOnFailure", ends("ends"), false},
		"rerun-crashed": {"RerunOnFailure", ends("crashes"), true},
		"always-ended":  {"Always", ends("ends"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d := light(t, l, name, nil)
			d.Metadata.RunStrategy = tt.strategy

			l.RemoveDomain(t, d.Spec.Name)

			left := leaveCreating(t, l, d, "kvm2")
			tt.before(left)

			vm, err := f.Create(t.Context(), d)
			if vm == nil || vm.UUID != left || vm.Active != tt.starts || (err == nil) != tt.starts {
				t.Fatalf("%+v, %v; want %s, started: %v", vm, err, left, tt.starts)
			}

			if err != nil && (!strings.Contains(err.Error(), tt.strategy) ||
				!strings.Contains(errRemedy(err), "virsh start")) {
				t.Errorf("it says %v, %s", err, errRemedy(err))
			}

			if marked := vm.Metadata.Creating.Started; tt.starts && marked != (tt.strategy != "Always") {
				t.Errorf("it is marked as started: %v", marked)
			}

			if err := f.FinishCreate(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
		})
	}
}
