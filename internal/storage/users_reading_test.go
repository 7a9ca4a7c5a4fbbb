package storage

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestReadsOne: a pool of which no volume can be read isn't taken for one that lacks an image.
func TestReadsOne(t *testing.T) {
	t.Parallel()
	h := testHost(t, "h", "dir").Conn
	if readsOne(t.Context(), h, "vms") || readsOne(t.Context(), h, "other") {
		t.Error("a volume is read of a pool without one")
	}
	document := "<volume><name>data</name><capacity>1</capacity></volume>"
	if err := h.CreateVolume(t.Context(), libvirt.NewVolume{Pool: "vms", Name: "data", Document: document}); err != nil {
		t.Fatal(err)
	}
	if !readsOne(t.Context(), h, "vms") {
		t.Error("no volume is read of a pool with one")
	}
}
