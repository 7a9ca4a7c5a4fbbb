package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const vmUUID = "6a5d3b62-6f0e-4b6e-9d59-0a6d3c1f7a11"

// said builds what one host answered. An empty state: the host has no such VM.
func said(name string, state libvirt.DomainState, reason string) Reply {
	a := Reply{
		Host: &Host{Name: name},
		Info: &libvirt.HostInfo{UUID: "uuid-of-" + name},
	}

	if state == libvirt.NoState {
		return a
	}

	d := libvirt.Domain{UUID: vmUUID, Name: "web", State: state, Reason: reason, Persistent: true}
	d.PersistentXML = fmt.Sprintf("<domain type='qemu'><name>web</name><uuid>%s</uuid></domain>", vmUUID)

	if d.Active() {
		d.LiveXML = d.PersistentXML
	}

	a.Domain = NewEntry(d)

	return a
}

func hasNot(name string) Reply { return said(name, libvirt.NoState, "") }
func runs(name string) Reply   { return said(name, libvirt.Running, "Booted") }
func isOff(name string) Reply  { return said(name, libvirt.Shutoff, "Shutdown") }

func left(name string) Reply { return said(name, libvirt.Shutoff, "Migrated") }

// arrives is the copy at the target, which has no definition of its own yet.
func arrives(name string, state libvirt.DomainState, reason string) Reply {
	a := said(name, state, reason)
	a.Domain.Persistent, a.Domain.PersistentXML = false, ""

	return a
}

func silent(name string) Reply {
	return Reply{Host: &Host{Name: name}, Err: libvirt.ErrUnreachable}
}

func fenced(name string) Reply {
	return Reply{Host: &Host{Name: name, Config: HostConfig{Fenced: true}}}
}

func reinstalled(name string) Reply {
	a := hasNot(name)
	a.Info.UUID = "another-uuid"

	return a
}

func TestLocate_findsTheOneCopyThatCounts(t *testing.T) {
	t.Parallel()

	kvm1 := LastKnown{Host: "kvm1", HostUUID: "uuid-of-kvm1"}

	tests := []struct {
		name    string
		answers []Reply
		last    LastKnown
		host    string
		stale   []string
		moving  bool
		roles   map[string]status.Role
		err     error
	}{
		{name: "where it was", answers: []Reply{runs("kvm1"), hasNot("kvm2")}, last: kvm1, host: "kvm1"},
		{name: "moved by hand", answers: []Reply{hasNot("kvm1"), runs("kvm2")}, last: kvm1, host: "kvm2"},
		{name: "moved, last host silent", answers: []Reply{silent("kvm1"), runs("kvm2")}, last: kvm1, host: "kvm2"},
		{
			name:    "moved, definition left behind",
			answers: []Reply{isOff("kvm1"), runs("kvm2")}, last: kvm1, host: "kvm2", stale: []string{"kvm1"},
		},
		{
			name:    "stopped where it was, definition left behind",
			answers: []Reply{isOff("kvm1"), isOff("kvm2")}, last: kvm1, host: "kvm1", stale: []string{"kvm2"},
		},
		{name: "stopped twice, undecided", answers: []Reply{isOff("kvm1"), isOff("kvm2")}, err: ErrAmbiguous},
		{
			name:    "stopped twice, one says it left",
			answers: []Reply{left("kvm1"), isOff("kvm2")}, host: "kvm2", stale: []string{"kvm1"},
		},
		{
			name:    "stopped twice, the last seen one says it left",
			answers: []Reply{left("kvm1"), isOff("kvm2")}, last: kvm1, host: "kvm2", stale: []string{"kvm1"},
		},
		{
			name:    "stopped twice, the last host forgot, the other ran it",
			answers: []Reply{said("kvm1", libvirt.Shutoff, "Unknown"), isOff("kvm2")}, last: kvm1, err: ErrAmbiguous,
		},
		{
			name:    "stopped twice, both forgot",
			answers: []Reply{said("kvm1", libvirt.Shutoff, "Unknown"), said("kvm2", libvirt.Shutoff, "Unknown")},
			last:    kvm1, host: "kvm1", stale: []string{"kvm2"},
		},
		{name: "left for nowhere", answers: []Reply{left("kvm1"), hasNot("kvm2")}, last: kvm1, err: ErrUnconfigured},
		{name: "left for a silent host", answers: []Reply{left("kvm1"), silent("kvm2")}, last: kvm1, err: ErrUnreachable},
		{
			name:    "left for a host that was fenced",
			answers: []Reply{fenced("kvm1"), left("kvm2")}, last: kvm1, host: "kvm2",
		},
		{
			name:    "stopped elsewhere, last host silent",
			answers: []Reply{silent("kvm1"), isOff("kvm2")}, last: kvm1, err: ErrUnreachable,
		},
		{
			name:    "stopped elsewhere, last host fenced",
			answers: []Reply{fenced("kvm1"), isOff("kvm2")}, last: kvm1, host: "kvm2",
		},
		{name: "runs twice", answers: []Reply{runs("kvm1"), runs("kvm2")}, last: kvm1, err: ErrTwoCopies},
		{
			name:    "migrating",
			answers: []Reply{runs("kvm1"), arrives("kvm2", libvirt.Paused, "Migration")},
			last:    kvm1, host: "kvm1", moving: true,
			roles: map[string]status.Role{"kvm1": status.RoleSource, "kvm2": status.RoleTarget},
		},
		{
			name:    "migrating again, the source came from elsewhere",
			answers: []Reply{said("kvm1", libvirt.Running, "Migrated"), arrives("kvm2", libvirt.Paused, "Migration")},
			last:    kvm1, host: "kvm1", moving: true,
			roles: map[string]status.Role{"kvm1": status.RoleSource, "kvm2": status.RoleTarget},
		},
		{
			name: "migrating, neither copy runs for the moment",
			answers: []Reply{
				arrives("kvm1", libvirt.Paused, "Migration"), said("kvm2", libvirt.Paused, "Migration"),
			},
			host: "kvm2", moving: true,
			roles: map[string]status.Role{"kvm1": status.RoleTarget, "kvm2": status.RoleSource},
		},
		{
			name:    "post-copy",
			answers: []Reply{said("kvm1", libvirt.Paused, "Postcopy"), arrives("kvm2", libvirt.Running, "Postcopy")},
			last:    kvm1, host: "kvm2", moving: true,
			roles: map[string]status.Role{"kvm1": status.RoleSource, "kvm2": status.RoleTarget},
		},
		{
			name:    "arrived, the source has not let go",
			answers: []Reply{said("kvm1", libvirt.Paused, "Migration"), said("kvm2", libvirt.Running, "Migrated")},
			last:    kvm1, host: "kvm2", moving: true,
			roles: map[string]status.Role{"kvm1": status.RoleSource, "kvm2": status.RoleTarget},
		},
		{
			name:    "runs",
			answers: []Reply{isOff("kvm1"), runs("kvm2")}, last: kvm1, host: "kvm2", stale: []string{"kvm1"},
			roles: map[string]status.Role{"kvm2": status.RoleActive},
		},
		{
			name:    "a migration begins",
			answers: []Reply{runs("kvm1"), said("kvm2", libvirt.Paused, "StartingUp")}, last: kvm1, host: "kvm1", moving: true,
		},
		{
			name: "starts", answers: []Reply{said("kvm1", libvirt.Paused, "StartingUp"), hasNot("kvm2")}, last: kvm1,
			host: "kvm1",
		},
		{
			name: "arrived", answers: []Reply{hasNot("kvm1"), said("kvm2", libvirt.Paused, "Migration")}, last: kvm1,
			host: "kvm2",
		},
		{
			name: "leaves", answers: []Reply{said("kvm1", libvirt.Paused, "Migration"), hasNot("kvm2")}, last: kvm1,
			host: "kvm1", moving: true,
		},
		{
			name:    "handed over",
			answers: []Reply{said("kvm1", libvirt.Paused, "Migration"), said("kvm2", libvirt.Paused, "Migration")},
			last:    LastKnown{Host: "kvm2", HostUUID: "uuid-of-kvm2"}, host: "kvm2", moving: true,
		},
		{
			name:    "starts twice",
			answers: []Reply{said("kvm1", libvirt.Paused, "StartingUp"), said("kvm2", libvirt.Paused, "StartingUp")},
			last:    kvm1, err: ErrTwoCopies,
		},
		{
			name:    "starts, or is the target of a migration from the silent host",
			answers: []Reply{silent("kvm1"), said("kvm2", libvirt.Paused, "StartingUp")}, last: kvm1, err: ErrUnreachable,
		},
		{
			name:    "post-copy broken, the target runs",
			answers: []Reply{said("kvm1", libvirt.Paused, "PostcopyFailed"), said("kvm2", libvirt.Running, "PostcopyFailed")},
			last:    kvm1, host: "kvm2", moving: true,
		},
		{
			name:    "half a migration, the other half silent",
			answers: []Reply{silent("kvm1"), said("kvm2", libvirt.Paused, "Migration")}, last: kvm1, err: ErrUnreachable,
		},

		{name: "gone", answers: []Reply{hasNot("kvm1"), hasNot("kvm2")}, last: kvm1, err: ErrNotFound},
		{name: "last host silent", answers: []Reply{silent("kvm1"), hasNot("kvm2")}, last: kvm1, err: ErrUnreachable},
		{name: "another host silent", answers: []Reply{hasNot("kvm1"), silent("kvm2")}, last: kvm1, err: ErrUnreachable},
		{name: "last host fenced", answers: []Reply{fenced("kvm1"), hasNot("kvm2")}, last: kvm1, err: ErrNotFound},
		{name: "last host removed from hosts", answers: []Reply{hasNot("kvm2")}, last: kvm1, err: ErrUnconfigured},
		{
			name:    "last host reinstalled",
			answers: []Reply{reinstalled("kvm1"), hasNot("kvm2")}, last: kvm1, err: ErrUnconfigured,
		},
		{
			name:    "last host renamed, still there",
			answers: []Reply{runs("old")}, last: LastKnown{Host: "new", HostUUID: "uuid-of-old"}, host: "old",
		},
		{
			name:    "last host renamed, and it is gone from there",
			answers: []Reply{hasNot("old")}, last: LastKnown{Host: "new", HostUUID: "uuid-of-old"}, err: ErrNotFound,
		},
		{name: "never seen, one silent", answers: []Reply{hasNot("kvm1"), silent("kvm2")}, err: ErrUnreachable},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			vm, err := Locate(tt.answers, vmUUID, tt.last)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}

			if tt.err != nil {
				for _, kind := range []error{ErrNotFound, ErrUnreachable, ErrUnconfigured, ErrTwoCopies, ErrAmbiguous} {
					if !errors.Is(tt.err, kind) && errors.Is(err, kind) {
						t.Errorf("error %v is also %v", err, kind)
					}
				}

				return
			}

			if vm.Host != tt.host || !slices.Equal(vm.StaleHosts, tt.stale) || vm.Migrating != tt.moving {
				t.Errorf("on %q, stale on %v, migrating %v; want %q, %v, %v",
					vm.Host, vm.StaleHosts, vm.Migrating, tt.host, tt.stale, tt.moving)
			}

			if tt.roles != nil && !maps.Equal(vm.ActiveHosts, tt.roles) {
				t.Errorf("roles %v, want %v", vm.ActiveHosts, tt.roles)
			}
		})
	}
}

// A VM is stranded where its own record, its source and its target agree that it is not being moved any more.
func TestLocate_tellsStrandedFromMigrating(t *testing.T) {
	t.Parallel()

	begun := domain.Migration{SourceHost: "kvm1", TargetHost: "kvm2"}
	elsewhere, renamed := begun, begun
	elsewhere.TargetUUID = "uuid-of-kvm4"
	renamed.TargetHost, renamed.TargetUUID = "kvm4", "uuid-of-kvm2"
	over := begun
	over.Phase, over.End = migration.PhaseSucceeded, time.Now()
	handedOver := func(record domain.Migration) Reply {
		a := said("kvm1", libvirt.Paused, "Migration")

		d, err := domain.Parse(a.Domain.PersistentXML)
		if err != nil {
			t.Fatal(err)
		}

		if err := d.SetMetadata(domain.Metadata{}.WithMigration(record)); err != nil {
			t.Fatal(err)
		}

		if a.Domain.PersistentXML, err = d.XML(); err != nil {
			t.Fatal(err)
		}

		return a
	}

	for name, tt := range map[string]struct {
		answers []Reply
		want    bool
	}{
		"its target has nothing":      {[]Reply{handedOver(begun), hasNot("kvm2"), hasNot("kvm3")}, true},
		"a third host is silent":      {[]Reply{handedOver(begun), hasNot("kvm2"), silent("kvm3")}, true},
		"its target is silent":        {[]Reply{handedOver(begun), silent("kvm2"), hasNot("kvm3")}, false},
		"its target is given up":      {[]Reply{handedOver(begun), fenced("kvm2"), hasNot("kvm3")}, false},
		"its target has a definition": {[]Reply{handedOver(begun), isOff("kvm2"), hasNot("kvm3")}, false},
		"its target waits for memory": {[]Reply{handedOver(begun), arrives("kvm2", libvirt.Paused, "Migration")}, false},
		"its target was renamed":      {[]Reply{handedOver(renamed), hasNot("kvm2"), hasNot("kvm4")}, true},
		"another host has its target's name, and a host is silent": {
			[]Reply{handedOver(elsewhere), hasNot("kvm2"), silent("kvm3")}, false,
		},
		"another tool moves it":      {[]Reply{handedOver(over), hasNot("kvm2"), hasNot("kvm3")}, false},
		"no record says who does it": {[]Reply{said("kvm1", libvirt.Paused, "Migration"), hasNot("kvm2")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			vm, err := Locate(tt.answers, vmUUID, LastKnown{Host: "kvm1", HostUUID: "uuid-of-kvm1"})
			if err != nil {
				t.Fatal(err)
			}

			if vm.Stranded != tt.want || vm.Migrating == tt.want {
				t.Errorf("stranded %v, migrating %v", vm.Stranded, vm.Migrating)
			}
		})
	}
}

// What is moved while the hosts are asked one after another may be on neither of them: they are asked again.
func TestInconsistent_doubtsThatNoHostHasIt(t *testing.T) {
	t.Parallel()

	if !Inconsistent(nil, absent(nil, "web", LastKnown{})) {
		t.Error("not found is believed on one asking")
	}
}
