package libvirt

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	golibvirt "libvirt.org/go/libvirt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// labHost opens one of the lab's shared hosts through a relay, as over SSH but without the SSH.
func TestGuest_reportsItself(t *testing.T) {
	t.Parallel()
	h, l, _ := labHost(t)
	ctx := t.Context()
	uuid, _ := startGuest(t, h, l,
		"<interface type='user'><mac address='52:54:00:11:22:33'/><model type='virtio'/></interface>")
	var all *GuestInfo
	var err error
	eventually(t, "the agent to tell everything", func() bool {
		all, err = h.GuestInfo(ctx, uuid, 0)
		return err == nil
	})
	if all.OS == nil || all.OS.KernelRelease == "" || all.Hostname == nil || all.Interfaces == nil {
		t.Errorf("got %s", cmp.Diff(GuestInfo{}, *all))
	}
	some, err := h.GuestInfo(ctx, uuid, GuestHostname|GuestUsers)
	must(t, err)
	if some.OS != nil || some.Interfaces != nil || !cmp.Equal(some.Hostname, all.Hostname) {
		t.Errorf("asked for two groups, got %s", cmp.Diff(GuestInfo{}, *some))
	}
	// Load came with a later libvirt than the lab's: what is known is still reported.
	some, err = h.GuestInfo(ctx, uuid, GuestHostname|GuestLoadInfo)
	must(t, err)
	if some.Hostname == nil || some.OS != nil {
		t.Errorf("asked for a group that isn't there, got %s", cmp.Diff(GuestInfo{}, *some))
	}
	addresses, err := h.InterfaceAddresses(ctx, uuid, SourceAgent)
	must(t, err)
	macs := map[string]bool{}
	for _, a := range addresses {
		macs[a.MAC] = true
	}
	if !macs["52:54:00:11:22:33"] && !macs["00:00:00:00:00:00"] {
		t.Errorf("got %v", addresses)
	}
	answer, err := h.AgentCommand(ctx, uuid, `{"execute":"guest-ping"}`)
	must(t, err)
	if !json.Valid([]byte(answer)) {
		t.Errorf("got %q", answer)
	}
	_, err = h.AgentCommand(ctx, uuid, `{"execute":"guest-nonsense"}`)
	want(t, err, ErrAgentFailed)
	leases, err := h.InterfaceAddresses(ctx, uuid, SourceLease)
	if err != nil || len(leases) != 0 {
		t.Errorf("got leases %v, %v", leases, err)
	}
}

func TestGuest_withoutAnAgentSaysSo(t *testing.T) {
	t.Parallel()
	h, l, _ := labHost(t)
	ctx := t.Context()
	for what, channel := range map[string]string{"not configured": "", "not running": agentChannel} {
		name := lab.Name(t)
		l.RemoveDomain(t, name)
		uuid, err := h.DefineDomain(ctx, strings.Replace(guestXML(l, name, "noagent", ""), agentChannel, channel, 1))
		must(t, err)
		must(t, h.StartDomain(ctx, uuid))
		_, infoErr := h.GuestInfo(ctx, uuid, GuestOSInfo)
		_, addressErr := h.InterfaceAddresses(ctx, uuid, SourceAgent)
		_, commandErr := h.AgentCommand(ctx, uuid, `{"execute":"guest-ping"}`)
		shutdownErr := h.ShutdownDomain(ctx, uuid, ShutdownAgent)
		for _, err := range []error{infoErr, addressErr, commandErr, shutdownErr} {
			if !errors.Is(err, ErrAgentUnavailable) {
				t.Errorf("agent %s: got %v", what, err)
			}
		}
	}
}

func TestQMP_asksQEMU(t *testing.T) {
	t.Parallel()
	h, l, _ := labHost(t)
	uuid := runningVM(t, h, l, "")
	answer, err := h.QMP(t.Context(), uuid, "query-status", nil)
	must(t, err)
	var status struct{ Running bool }
	must(t, json.Unmarshal(answer, &status))
	if !status.Running {
		t.Errorf("got %s", answer)
	}
	_, err = h.QMP(t.Context(), uuid, "device_del", map[string]string{"id": "nonsense"})
	want(t, err, ErrInternal)
	var refusal *QMPError
	if !errors.As(err, &refusal) || refusal.Class != "DeviceNotFound" {
		t.Errorf("got %v", err)
	}
}

// What QEMU can't migrate it names itself, device and feature.
func TestMigrationBlockers_areQEMUsOwn(t *testing.T) {
	t.Parallel()
	h, l, _ := labHost(t)
	const peer = `<shmem name='virtfleet-lab' role='peer'><model type='ivshmem-plain'/><size unit='M'>1</size></shmem>`
	for devices, blocker := range map[string]string{"": "", peer: "ivshmem"} {
		uuid := runningVM(t, h, l, devices)
		said, err := h.MigrationBlockers(t.Context(), uuid)
		must(t, err)
		if len(said) != len(strings.Fields(blocker)) || !strings.Contains(strings.Join(said, " "), blocker) {
			t.Errorf("%q: QEMU says %q, want %q", devices, said, blocker)
		}
	}
}

// Of a guest's load only what the agent reported is known.
func TestGuestInfo_load(t *testing.T) {
	t.Parallel()
	from := &golibvirt.DomainGuestInfo{Load: &golibvirt.DomainGuestInfoLoad{
		Load1MSet: true, Load1M: 0, Load5MSet: true, Load5M: 1.5, Load15M: 7,
	}}
	want := &GuestLoad{Load1: new(0.0), Load5: new(1.5)}
	if diff := cmp.Diff(want, guestInfo(from, GuestLoadInfo, true).Load); diff != "" {
		t.Error(diff)
	}
	for name, nothing := range map[string]*GuestInfo{
		"not asked for": guestInfo(from, GuestHostname, true),
		"nothing said":  guestInfo(&golibvirt.DomainGuestInfo{Load: &golibvirt.DomainGuestInfoLoad{}}, GuestLoadInfo, true),
		"not there":     guestInfo(&golibvirt.DomainGuestInfo{}, GuestLoadInfo, true),
	} {
		if nothing.Load != nil {
			t.Errorf("%s: %+v", name, nothing.Load)
		}
	}
}
