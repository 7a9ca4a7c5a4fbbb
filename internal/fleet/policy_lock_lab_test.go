package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// byUUID returns two hosts of their own: the one on which a policy is locked, as its UUID is the first, and another.
func byUUID(t *testing.T, l *lab.Lab) (first, second *lab.Host) {
	t.Helper()

	first, second = l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "carol", first, second)

	var uuids []string

	for _, h := range []*lab.Host{first, second} {
		info, err := f.Host(h.Name).Conn.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		uuids = append(uuids, info.UUID)
	}

	if uuids[0] > uuids[1] {
		return second, first
	}

	return first, second
}

// strategyOn returns the strategy of the policy on the host, "" if the host doesn't have the policy.
func strategyOn(t *testing.T, f *Fleet, h *lab.Host, id string) string {
	t.Helper()

	record, _, err := inventory.ReadRecord(t.Context(), f.Host(h.Name))
	if err != nil {
		t.Fatal(err)
	}

	for _, p := range record.EvictionPolicies {
		if p.ID == id {
			return p.Strategy
		}
	}

	return ""
}

// A host that refuses to keep locks, as its disk is full, keeps no other host from getting a new policy, or the next
// version of one. The error names that host alone.
func TestLab_policyBesideAHostThatRefuses(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	refusing, healthy := byUUID(t, l)
	f := ownFleet(t, "alice", refusing, healthy)
	put := func(id, strategy string) ([]string, error) {
		p := evacuation.Policy{Identity: policy.Identity{ID: id, Name: id}, Strategy: strategy}

		return f.EvictionPolicies().Put(t.Context(), p)
	}

	if _, err := put("old", evacuation.None); err != nil {
		t.Fatal(err)
	}

	const secrets = "/etc/libvirt/secrets"

	if err := refusing.FillDisk(t.Context(), secrets); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := refusing.FreeDisk(context.WithoutCancel(t.Context()), secrets); err != nil {
			t.Error(err)
		}
	})

	for _, id := range []string{"old", "new"} {
		lacking, err := put(id, evacuation.LiveMigrate)
		if !slices.Equal(lacking, []string{refusing.Name}) || err == nil ||
			!strings.Contains(err.Error(), "No space left on device") || strings.Contains(err.Error(), healthy.Name) {
			t.Errorf("%s: %q lack it: %v; want host %s alone", id, lacking, err, refusing.Name)
		}

		if got := strategyOn(t, f, healthy, id); got != evacuation.LiveMigrate {
			t.Errorf("%s: the healthy host has %q", id, got)
		}
	}
}

// The lock of a policy goes while another host waits for the lock that a killed run has left on its record. If the host
// of the policy's lock is down, the other one gets the policy. If another run may have the lock, it doesn't.
func TestLab_policyWhoseLockGoes(t *testing.T) {
	t.Parallel()

	const id = "a"

	for name, tt := range map[string]struct {
		fault func(*testing.T, *lab.Lab, *lab.Host)
		lost  bool
	}{
		"its host goes down": {func(t *testing.T, l *lab.Lab, h *lab.Host) {
			t.Helper()
			l.KillLibvirtd(t, h)
		}, false},
		"it is lost": {func(t *testing.T, l *lab.Lab, h *lab.Host) {
			t.Helper()
			l.Virsh(t, h.Name, "secret-undefine", fleettest.Lease(t, l, h, "eviction policy:"+id))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			l := lab.Open(t)
			first, other := byUUID(t, l)
			f := ownFleet(t, "alice", first, other)

			// What a run leaves that was killed: the secret, which is no longer renewed.
			err := f.Host(other.Name).Conn.DefineOwnSecret(t.Context(), libvirt.OwnSecret{
				UsageType: libvirt.SecretUsageVTPM, UsageID: lease.UsagePrefix + "host-record", Value: []byte(`{"owner":"bob"}`),
			})
			if err != nil {
				t.Fatal(err)
			}

			reached := false

			listen(f, &onLog{Message: "waiting for another run's lease", Do: func() {
				reached = true

				tt.fault(t, l, first)
			}})

			lacking, err := f.EvictionPolicies().Put(t.Context(), evacuation.Policy{
				Identity: policy.Identity{ID: id, Name: id}, Strategy: evacuation.None,
			})
			if !reached || slices.Contains(lacking, other.Name) != tt.lost || errors.Is(err, ErrLeaseLost) != tt.lost {
				t.Errorf("reached %t, %q lack it: %v; want a lost lease: %t", reached, lacking, err, tt.lost)
			}

			if got := strategyOn(t, f, other, id); (got == "") != tt.lost {
				t.Errorf("the other host has %q", got)
			}
		})
	}
}
