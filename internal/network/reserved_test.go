package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestReservations_atTheSameTime: of changes that begin at the same time, and share a lock, one gets an address or a
// MAC address. The others change nothing, and learn who has it.
func TestReservations_atTheSameTime(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	var together *sync.WaitGroup // those that wait for each other with the lock
	shared := LockFunc(func(ctx context.Context, _, _, _ string) (context.Context, func(), error) {
		if together != nil {
			together.Done()
			together.Wait()
		}
		return ctx, func() {}, nil
	})
	const name, many = "at-the-same-time", 8
	mac := func(i int) string { return fmt.Sprintf("52:54:00:00:01:0%d", i) }
	own := func(i int) DHCPHost { return DHCPHost{MAC: mac(i), IP: fmt.Sprintf("10.213.12.1%d", i)} }
	bridge := "virbr98"
	want := Wanted{Active: true, Spec: Spec{Bridge: &bridge, IPs: []IP{{Address: "10.213.12.1/24", DHCP: &DHCP{
		Ranges: []Range{{Start: "10.213.12.100", End: "10.213.12.199"}},
	}}}}}
	noRestart := func(context.Context) (bool, error) { return false, nil }
	if err := Update(t.Context(), shared, h, name, want, noRestart); err != nil {
		t.Fatal(err)
	}
	// one makes all changes at the same time, and says that one of them has succeeded, and that the others name it.
	one := func(what string, change func(i int) (DHCPHost, error)) {
		t.Helper()
		together = &sync.WaitGroup{}
		together.Add(many)
		defer func() { together = nil }()
		var all sync.WaitGroup
		var wanted [many]DHCPHost
		var errs [many]error
		for i := range many {
			all.Go(func() { wanted[i], errs[i] = change(i) })
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			if err == nil && won >= 0 {
				t.Errorf("%s: both %d and %d succeeded", what, won, i)
			} else if err == nil {
				won = i
			}
		}
		for _, err := range errs {
			var reserved *ReservedError
			switch {
			case err == nil:
			case !errors.As(err, &reserved) || !errors.Is(err, libvirt.ErrExists) || won < 0 || reserved.Have != wanted[won]:
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	add := func(of DHCPHost) error { return AddReservation(t.Context(), shared, h, name, of) }
	one("the same reservation is added", func(int) (DHCPHost, error) { return own(0), add(own(0)) })
	for i := 1; i < many; i++ {
		if err := add(own(i)); err != nil {
			t.Fatal(err)
		}
	}
	one("all get the same address", func(i int) (DHCPHost, error) {
		changed := DHCPHost{MAC: mac(i), IP: "10.213.12.50"}
		return changed, PutReservation(t.Context(), shared, h, name, changed)
	})
	is, err := Read(t.Context(), h, name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if found := reservationsIn(*is.Live, own(i)); len(found) != 1 {
			t.Errorf("%s has %v", mac(i), found)
		}
	}
	if err := Delete(t.Context(), shared, h, name); err != nil {
		t.Error(err)
	}
}

// TestUpdate_addressesMove: the reservations of a network get each other's addresses. None is lost.
func TestUpdate_addressesMove(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	alone := LockFunc(func(ctx context.Context, _, _, _ string) (context.Context, func(), error) {
		return ctx, func() {}, nil
	})
	const name = "addresses-move"
	bridge := "virbr97"
	noRestart := func(context.Context) (bool, error) { return false, nil }
	// put gives each of three computers an address. The host has the last one first.
	put := func(ends ...int) Spec {
		t.Helper()
		dhcp := &DHCP{Ranges: []Range{{Start: "10.213.13.100", End: "10.213.13.199"}}}
		for i, end := range ends {
			dhcp.Hosts = slices.Insert(dhcp.Hosts, 0, DHCPHost{
				MAC: fmt.Sprintf("52:54:00:00:02:0%d", i), IP: fmt.Sprintf("10.213.13.%d", end), Name: fmt.Sprintf("vm%d", i),
			})
		}
		want := Wanted{Active: true, Spec: Spec{Bridge: &bridge, IPs: []IP{{Address: "10.213.13.1/24", DHCP: dhcp}}}}
		if err := Update(t.Context(), alone, h, name, want, noRestart); err != nil {
			t.Fatal(err)
		}
		return want.Spec
	}
	put(10, 11, 12)
	for _, ends := range [][]int{{11, 12, 13}, {12, 11, 13}, {11, 13, 12}, {13, 12, 11}} {
		want := put(ends...)
		is, err := Read(t.Context(), h, name)
		if err != nil {
			t.Fatal(err)
		}
		if left := is.Differences(want); len(left) > 0 {
			t.Errorf("%v: %+v", ends, is.Live.IPs[0].DHCP.Hosts)
		}
	}
	if err := Delete(t.Context(), alone, h, name); err != nil {
		t.Error(err)
	}
}

// TestTaken: another one with the address keeps a reservation from being added, and so does one with the name.
func TestTaken(t *testing.T) {
	t.Parallel()
	v4 := DHCPHost{MAC: "52:54:00:00:00:01", IP: "10.0.0.5", Name: "web"}
	v6 := DHCPHost{DUID: "00:03:00:01", IP: "fd00::5", Name: "web"}
	named := DHCPHost{IP: "fd00::9", Name: "db"}
	spec := Spec{IPs: []IP{
		{Address: "10.0.0.1/24", DHCP: &DHCP{Hosts: []DHCPHost{v4}}},
		{Address: "fd00::1/64", DHCP: &DHCP{Hosts: []DHCPHost{v6, named}}},
	}}
	for want, by := range map[DHCPHost]*DHCPHost{
		v4: nil, v6: nil,
		{MAC: "52:54:00:00:00:01", IP: "10.0.0.6", Name: "www"}:  nil,
		{MAC: "52:54:00:00:00:02", IP: "10.0.0.6", Name: "db"}:   nil,
		{MAC: "52:54:00:00:00:02", IP: "10.0.0.5"}:               &v4,
		{MAC: "52:54:00:00:00:02", IP: "10.0.0.6", Name: "web"}:  &v4,
		{DUID: "00:03:00:02", IP: "fd00::6", Name: "web"}:        &v6,
		{DUID: "00:03:00:02", IP: "fd00:0:0:0::9"}:               &named,
		{DUID: "00:03:00:01", IP: "fd00:0:0:0::9", Name: "db"}:   &named,
		{DUID: "00:03:00:01", IP: "fd00:0:0:0::7", Name: "web7"}: nil,
	} {
		err := taken(spec, "lan", want, nil)
		var reserved *ReservedError
		if by == nil && err != nil || by != nil && (!errors.As(err, &reserved) || reserved.Have != *by) {
			t.Errorf("%+v: %v", want, err)
		}
	}
}

// TestShares: a name is that of another reservation only if the addresses of both are known, and of one family. The
// order of the two doesn't matter.
func TestShares(t *testing.T) {
	t.Parallel()
	v4 := DHCPHost{MAC: "52:54:00:00:00:01", IP: "10.0.0.5", Name: "web"}
	v6 := DHCPHost{DUID: "00:03:00:01", IP: "fd00::5", Name: "web"}
	for other, shared := range map[DHCPHost]string{
		v6:                                      "",
		{DUID: "00:03:00:01", Name: "web"}:      "", // Of an address that isn't known yet.
		{MAC: "52:54:00:00:00:02", Name: "web"}: "",
		{MAC: "52:54:00:00:00:02", IP: "10.0.0.6", Name: "web"}:   "name",
		{MAC: "52:54:00:00:00:02", IP: "10.0.0.5"}:                "ip",
		{MAC: "52:54:00:00:00:01", Name: "www"}:                   "mac",
		{MAC: "52:54:00:00:00:01", IP: "10.0.0.6", Name: "other"}: "mac",
	} {
		if one, two := v4.Shares(other), other.Shares(v4); one != shared || two != shared {
			t.Errorf("%s and %s share %q and %q, not %q", v4, other, one, two, shared)
		}
	}
	unknown := DHCPHost{MAC: "52:54:00:00:00:02", Name: "web"}
	if shared := unknown.Shares(v6) + v6.Shares(unknown); shared != "" {
		t.Errorf("%s and %s share %q", unknown, v6, shared)
	}
}
