package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// While a move copies a disk to a host, and after it was killed, no other VM is created from the half copy or started
// from it, also where the source is fenced: the record of the move is lost with it. Once the copy is removed, or the VM
// has arrived, nothing of that is left on the target.
func TestLab_halfCopyIsNobodysDisk(t *testing.T) {
	t.Parallel()

	for strategy, moment := range map[string]string{"Always": "migration started", "Halted": "copying"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			f := labFleet(t, l, t.Name(), nil)
			file := directory(t, l, "kvm1", "kvm2") + "/root.raw"
			l.Run(t, "kvm1", "sh", "-c", "head -c 16M /dev/urandom >"+file)

			d := light(t, l, "moves", nil)
			d.Metadata.Host, d.Metadata.RunStrategy = "kvm1", strategy
			d.Spec.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{File: file}, Format: "raw"}}
			d.Files = map[string]string{"disks.root.file": file}
			vm := create(t, f, l, d)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			var (
				begun    domain.Metadata
				arriving string
			)

			mark := inventory.ArrivalOf(vm.UUID)

			listen(f, &onLog{Message: moment, Do: func() {
				defer cancel()

				definition, err := domain.Parse(l.Virsh(t, "kvm1", "dumpxml", "--inactive", vm.UUID))
				if err != nil {
					t.Error(err)

					return
				}

				begun = definition.Metadata()
				if arriving, err = mark.Begun(t.Context(), f.Host("kvm2").Conn); err != nil {
					t.Error(err)
				}
			}})

			o := migration.Options{CopyStorage: migration.CopyFull, Bandwidth: new(uint64(1 << 20))}
			if _, _, err := f.Move(ctx, vm.UUID, lastOf(vm), "kvm2", o); !errors.Is(err, context.Canceled) {
				t.Fatalf("breaking it off: %v", err)
			}

			nothingOn(t, l, "kvm2", file)
			noMark(t, l, vm.UUID)

			if len(begun.Copies) != 1 || arriving == "" {
				t.Fatalf("while it was copied these were recorded: %+v, %q", begun.Copies, arriving)
			}

			// As a killed run leaves it.
			now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
			if err == nil {
				_, err = records.WriteMetadata(t.Context(), now, begun)
			}

			if err = errors.Join(err, mark.Begin(t.Context(), f.Host("kvm2").Conn, arriving)); err != nil {
				t.Fatal(err)
			}

			half := "head -c 16M /dev/zero >"
			if begun.Copies[0].Creating {
				half = fmt.Sprintf("truncate -s %d ", begun.Copies[0].Bytes)
			}

			l.Run(t, "kvm2", "sh", "-c", half+file)
			refusesHalf(t, l, d, vm, file)

			cleansHalf(t, f, l, d, vm, file)

			now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{
				CopyStorage: migration.CopyFull,
			})
			if err != nil || now.Host != "kvm2" || state.Failed || len(now.Metadata.Copies) > 0 {
				t.Fatalf("the next run: %+v, %+v, %v", now, state, err)
			}

			noMark(t, l, vm.UUID)

			// The run was killed when the VM had arrived, and then the VM is deleted. Its file is whole, and stays.
			if err := mark.Begin(t.Context(), f.Host("kvm2").Conn, arriving); err != nil {
				t.Fatal(err)
			}

			if report, err := f.Delete(t.Context(), vm.UUID, lastOf(now), time.Second); err != nil {
				t.Fatalf("deleted: %+v, %v", report, err)
			}

			noMark(t, l, vm.UUID)
			l.Run(t, "kvm2", "test", "-e", file)
		})
	}
}

// refusesHalf fails the test unless a fleet that has lost the source refuses the half copy on kvm2 as a VM's disk.
func refusesHalf(t *testing.T, l *lab.Lab, d placement.Desired, vm *inventory.VM, file string) {
	t.Helper()

	lost := labFleet(t, l, t.Name()+"-lost", func(name string, hc *inventory.HostConfig) {
		hc.Fenced = name != "kvm2"
		comparesFiles(t, l, name, hc)
	})
	link := file + ".link"
	l.Run(t, "kvm2", "ln", "-s", file, link)
	defer l.Run(t, "kvm2", "rm", link)

	d.Spec.Name += "-again"
	d.Metadata.RunStrategy = "Always"
	l.RemoveDomain(t, d.Spec.Name)

	for _, c := range []struct{ at, pin string }{{file, ""}, {file, "kvm2"}, {link, "kvm2"}} {
		says := func(text string, parts ...string) {
			t.Helper()

			parts = append(parts, c.at, "not known to be whole", fmt.Sprintf("move of VM %q from host \"kvm1\"", vm.Name))
			for _, part := range parts {
				if !strings.Contains(text, part) {
					t.Errorf("it doesn't say %s: %s", part, text)
				}
			}
		}

		d.Metadata.Host = c.pin
		d.Files = map[string]string{"disks.root.file": c.at}
		d.Spec.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{File: c.at}, Format: "raw"}}

		problems, err := lost.CheckCreate(t.Context(), d)
		i := slices.IndexFunc(problems, func(p inventory.Problem) bool { return p.Attribute == "disks.root.file" })

		if err != nil || i < 0 || problems[i].Warning {
			t.Fatalf("checking %s on %q: %+v, %v", c.at, c.pin, problems, err)
		}

		says(problems[i].Detail+problems[i].Remedy, inventory.ArrivalOf(vm.UUID).UsageID())

		made, err := lost.Create(t.Context(), d)
		if made != nil || !errors.Is(err, placement.ErrNoHost) {
			t.Fatalf("creating it on %q: %+v, %v", c.pin, made, err)
		}

		says(err.Error())

		if c.pin == "" {
			continue
		}

		// A user has defined it by hand.
		l.Define(t, "kvm2", fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory><os><type `+
			`arch="x86_64" machine="q35">hvm</type></os><devices><disk type="file"><driver name="qemu" type="raw"/>`+
			`<source file="%s"/><target dev="vda" bus="virtio"/><alias name="ua-disk-root"/></disk></devices></domain>`,
			d.Spec.Name, c.at))
		lost.ForgetAll()

		byHand, err := lost.FindByName(t.Context(), d.Spec.Name)
		if err != nil {
			t.Fatal(err)
		}

		_, err = lost.Update(t.Context(), byHand.UUID, lastOf(byHand), d)
		says(fmt.Sprint(err))

		if state := l.Virsh(t, "kvm2", "domstate", byHand.UUID); !strings.Contains(state, "shut off") {
			t.Errorf("started by hand, it is %s", state)
		}

		l.Virsh(t, "kvm2", "undefine", byHand.UUID)
		lost.ForgetAll()
	}
}

// cleansHalf fails the test unless the VM, which stays at its source, is known to have left the half copy on kvm2, and
// its next change removes that. What a living run copies isn't left over.
func cleansHalf(t *testing.T, f *Fleet, l *lab.Lab, d placement.Desired, vm *inventory.VM, file string) {
	t.Helper()

	left := func(want ...string) {
		t.Helper()
		f.ForgetAll()

		now, err := f.Find(t.Context(), vm.UUID, lastOf(vm))
		if err == nil {
			err = f.NoteInterrupted(t.Context(), now)
		}

		if err != nil || !slices.Equal(now.LeftVolumes(), want) {
			t.Errorf("left are %q, %v; want %q", now.LeftVolumes(), err, want)
		}
	}

	_, release, err := labFleet(t, l, t.Name()+"-moving", nil).Lock(t.Context(), f.Host("kvm1"), vm.UUID, "moving")
	if err != nil {
		t.Fatal(err)
	}

	left()
	release()
	left("kvm2: " + file)

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || len(now.KeptDisks) > 0 || len(now.Metadata.Copies) > 0 || now.OpenMigration() != nil {
		t.Errorf("updated: %+v, %v", now, err)
	}

	left()
	nothingOn(t, l, "kvm2", file)
	noMark(t, l, vm.UUID)
}

// noMark fails the test if kvm2 has the record that the VM's files are copied there.
func noMark(t *testing.T, l *lab.Lab, uuid string) {
	t.Helper()

	if out := l.Virsh(t, "kvm2", "secret-list"); strings.Contains(out, inventory.ArrivalOf(uuid).UsageID()) {
		t.Errorf("the record of files that arrive is left: %s", out)
	}
}
