package network

import (
	"context"
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestSpec_rangesAsLibvirt: the ranges that are refused are those that libvirt refuses.
func TestSpec_rangesAsLibvirt(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	alone := LockFunc(func(ctx context.Context, _, _, _ string) (context.Context, func(), error) {
		return ctx, func() {}, nil
	})
	noRestart := func(context.Context) (bool, error) { return false, nil }
	for i, test := range []struct {
		address, start, end string
		accepted            bool
	}{
		{"10.0.0.1/14", "10.1.0.0", "10.1.255.255", true},
		{"10.0.0.1/15", "10.0.255.200", "10.1.0.50", false},
		{"10.0.0.1/24", "10.0.0.0", "10.0.0.9", false},
		{"10.0.0.1/24", "10.0.0.9", "10.0.0.255", false},
		{"10.0.0.1/24", "10.0.0.9", "10.0.0.2", false},
		{"fd00:1::1/64", "fd00:1::", "fd00:1::ffff", true},
		{"fd00:1::1/64", "fd00:1::ff00", "fd00:1::1:50", false},
	} {
		spec := Spec{IPs: []IP{{Address: test.address, DHCP: &DHCP{Ranges: []Range{{Start: test.start, End: test.end}}}}}}
		problems := spec.Validate()
		err := Update(t.Context(), alone, h, fmt.Sprintf("range-%d", i), Wanted{Spec: spec}, noRestart)
		if (len(problems) == 0) != test.accepted || (err == nil) != test.accepted {
			t.Errorf("%+v: %v, and libvirt says %v", test, problems, err)
		}
	}
}
