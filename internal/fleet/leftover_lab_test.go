package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// secured is a VM that runs on kvm1 with firmware that keeps variables, which are in that file, and with a TPM.
func secured(t *testing.T, f *Fleet, l *lab.Lab) (vm *inventory.VM, nvram string) {
	t.Helper()

	d := mover(t, l, "noagent")
	d.Metadata.RunStrategy = "Manual"
	d.Spec.Firmware.Type = new("efi")
	vm = create(t, f, l, d)

	if _, err := vm.On.Conn.DefineDomain(t.Context(), strings.Replace(vm.Entry.PersistentXML, "</devices>",
		`<tpm model="tpm-crb"><backend type="emulator" version="2.0"/></tpm></devices>`, 1)); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, "kvm1", "start", vm.UUID)

	return vm, "/var/lib/libvirt/qemu/nvram/" + vm.Name + "_VARS.fd"
}

// movesCold moves a VM that was just switched off, and fails the test unless it arrives with its variables.
func movesCold(t *testing.T, f *Fleet, l *lab.Lab, uuid, from, to, nvram string) {
	t.Helper()

	before := checksum(t, l, from, nvram)

	now, state, err := f.Move(t.Context(), uuid, inventory.LastKnown{Host: from}, to, migration.Options{})
	if err != nil || now.Host != to || state.Method != migration.MethodCold || len(now.Metadata.Copies) > 0 {
		t.Errorf("moving it to %s when it is off: %+v, %+v, %v", to, now, state, err)

		return
	}

	onlyOn(t, f, uuid, to)
	nothingOn(t, l, from, nvram, "/var/lib/libvirt/swtpm/"+uuid)

	if after := checksum(t, l, to, nvram); after != before {
		t.Errorf("its variables are %s, were %s", after, before)
	}

	l.Virsh(t, to, "start", uuid)
}

// A VM that moved while it runs leaves nothing of its firmware and its TPM at its source: it can come back when
// it is off. So it is when whoever moved it was killed, and when it never arrived.
func TestLab_liveMoveLeavesNoVariables(t *testing.T) {
	t.Parallel()

	t.Run("arrived", func(t *testing.T) {
		t.Parallel()

		l := lab.Open(t)
		f := labFleet(t, l, t.Name(), nil)
		vm, nvram := secured(t, f, l)

		now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
		if err != nil || now.Host != "kvm2" || state.Method != migration.MethodLive || len(now.Metadata.Copies) > 0 {
			t.Fatalf("%+v, %+v, %v", now, state, err)
		}

		nothingOn(t, l, "kvm1", nvram)
		l.Virsh(t, "kvm2", "destroy", vm.UUID)
		movesCold(t, f, l, vm.UUID, "kvm2", "kvm1", nvram)
	})

	t.Run("killed", func(t *testing.T) {
		t.Parallel()

		l := lab.Open(t)
		f := labFleet(t, l, t.Name(), nil)
		vm, nvram := secured(t, f, l)
		leaveRecord(t, f, vm, nvram)

		if err := f.Host("kvm1").Conn.Migrate(t.Context(), vm.UUID, f.Host("kvm2").Conn, libvirt.Migration{}); err != nil {
			t.Fatal(err)
		}

		l.Virsh(t, "kvm2", "destroy", vm.UUID)
		movesCold(t, f, l, vm.UUID, "kvm2", "kvm1", nvram)
	})

	t.Run("aborted", func(t *testing.T) {
		t.Parallel()

		l := lab.Open(t)
		f := labFleet(t, l, t.Name(), nil)
		vm, nvram := secured(t, f, l)

		// The firmware's own memory is more than comes in time. A guest that boots with it is expensive.
		late := migration.Options{Bandwidth: new(uint64(1 << 20)), CompletionTimeoutPerGiB: new(time.Second)}

		now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", late)
		if !errors.Is(err, migration.ErrLate) || now == nil || now.Host != "kvm1" || len(now.Metadata.Copies) > 0 {
			t.Fatalf("%+v, %v", now, err)
		}

		nothingOn(t, l, "kvm2", nvram)
		l.Virsh(t, "kvm1", "destroy", vm.UUID)
		movesCold(t, f, l, vm.UUID, "kvm1", "kvm2", nvram)
	})
}

// leaveRecord leaves behind what a run writes down that is killed once the migration has begun.
func leaveRecord(t *testing.T, f *Fleet, vm *inventory.VM, files ...string) {
	t.Helper()

	info, err := f.Host("kvm2").Conn.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	m := vm.Metadata.WithMigration(migration.State{
		SourceHost: "kvm1", TargetHost: "kvm2", Start: time.Now(), Phase: migration.PhasePreparingTarget,
		Method: migration.MethodLive,
	}.Record("", "a run that was killed"))

	for _, file := range files {
		m.Copies = append(m.Copies, domain.Copy{
			Host: "kvm2", HostUUID: info.UUID, Path: file, FromUUID: vm.HostUUID,
		})
	}

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}
}

// What the target had before the move stays where it is, and what another VM uses is never removed.
func TestLab_liveMoveKeepsOthersVariables(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	vm, nvram := secured(t, f, l)
	l.Define(t, "kvm1", fmt.Sprintf("<domain type='qemu'><name>%[1]s-other</name><memory>1024</memory><os>"+
		"<type machine='q35'>hvm</type><loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader>"+
		"<nvram>%[2]s</nvram></os><features><acpi/></features></domain>", vm.Name, nvram))

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if err != nil || now.Host != "kvm2" {
		t.Fatalf("%+v, %v", now, err)
	}

	checksum(t, l, "kvm1", nvram) // It is there: another VM of that host uses it.
	onlyOn(t, f, vm.UUID, "kvm2")

	// On the way back it is at both hosts before, and it isn't known whose it is.
	if now, _, err = f.Move(t.Context(), vm.UUID, lastOf(now), "kvm1", migration.Options{}); err != nil {
		t.Fatalf("%+v, %v", now, err)
	}

	checksum(t, l, "kvm2", nvram)
	l.Run(t, "kvm2", "rm", nvram)
}

// A guest whose clock is wrong has it set when it arrives, and as well where whoever moved it was killed.
func TestLab_moveSetsTheClock(t *testing.T) {
	t.Parallel()

	for name, move := range map[string]func(t *testing.T, f *Fleet, vm *inventory.VM){
		"moved": func(t *testing.T, f *Fleet, vm *inventory.VM) {
			t.Helper()

			if now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{}); err != nil {
				t.Fatalf("%+v, %v", now, err)
			}
		},
		"killed": func(t *testing.T, f *Fleet, vm *inventory.VM) {
			t.Helper()
			leaveRecord(t, f, vm)

			if err := f.Host("kvm1").Conn.Migrate(t.Context(), vm.UUID, f.Host("kvm2").Conn, libvirt.Migration{}); err != nil {
				t.Fatal(err)
			}

			now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
			if err != nil || !state.Start.IsZero() || now.OpenMigration() != nil {
				t.Fatalf("%+v, %+v, %v", now, state, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			f := labFleet(t, l, t.Name(), nil)
			vm := waitAgent(t, f, create(t, f, l, mover(t, l, "")))
			// The agent needs a tool for it that the guest has under another name, and looks for it only once.
			agentSays(t, f, vm.UUID, "kvm1", `{"execute":"guest-exec","arguments":{"path":"/bin/sh",`+
				`"arg":["-c","ln -s /bin/busybox /sbin/hwclock; date -s 2001-01-01"]}}`)

			for clockIsOff(t, f, vm.UUID, "kvm1") < time.Hour {
				if err := admission.Pause(t.Context(), 100*time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}

			gaveUp := false
			listen(f, &onLog{Message: "guest's clock not set", Do: func() { gaveUp = true }})
			move(t, f, vm)
			l.AwaitAgent(t, "kvm2", vm.Name) // Who hasn't heard from it yet gives it no more than five seconds.

			if off := clockIsOff(t, f, vm.UUID, "kvm2"); off > time.Hour && !gaveUp {
				t.Errorf("the guest's clock is off by %v", off)
			}

			onlyOn(t, f, vm.UUID, "kvm2")
		})
	}
}

func agentSays(t *testing.T, f *Fleet, uuid, host, command string) string {
	t.Helper()

	answer, err := f.Host(host).Conn.AgentCommand(t.Context(), uuid, command)
	if err != nil {
		t.Fatal(err)
	}

	return answer
}

func clockIsOff(t *testing.T, f *Fleet, uuid, host string) time.Duration {
	t.Helper()

	var now struct{ Return int64 }
	if err := json.Unmarshal([]byte(agentSays(t, f, uuid, host, `{"execute":"guest-get-time"}`)), &now); err != nil {
		t.Fatal(err)
	}

	return time.Since(time.Unix(0, now.Return)).Abs()
}

// With a stale definition goes what its firmware keeps, but never the file that the VM uses where it is: hosts that
// share a filesystem have the same one.
func TestLab_leftoverSharesVariables(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)

	for _, shared := range []bool{false, true} {
		vm, nvram := secured(t, f, l)

		if shared {
			// Only libvirt's own directories are each host's own in the lab.
			at := filepath.Join(t.TempDir(), "VARS.fd")
			l.Virsh(t, "kvm1", "destroy", vm.UUID)

			xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID)
			l.Define(t, "kvm1", strings.Replace(xml, "</os>", "<nvram>"+at+"</nvram></os>", 1))
			l.Virsh(t, "kvm1", "start", vm.UUID)

			nvram = at
		} else {
			l.Run(t, "kvm2", "sh", "-c", "mkdir -p /var/lib/libvirt/qemu/nvram && echo other > "+nvram)
		}

		l.Define(t, "kvm2", l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID))

		now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
		if err != nil || !slices.Equal(now.StaleHosts, []string{"kvm2"}) {
			t.Fatalf("%+v, %v", now, err)
		}

		l.Virsh(t, "kvm1", "suspend", vm.UUID) // Its firmware, which may still boot, writes to the file, too.

		before := checksum(t, l, "kvm1", nvram)

		if err := f.RemoveStale(t.Context(), now); err != nil {
			t.Error(err)
		}

		if after := checksum(t, l, "kvm1", nvram); after != before {
			t.Errorf("its variables are %s, were %s", after, before)
		}

		l.Virsh(t, "kvm1", "resume", vm.UUID)
		onlyOn(t, f, vm.UUID, "kvm1")

		if !shared {
			nothingOn(t, l, "kvm2", nvram)
		}
	}
}
