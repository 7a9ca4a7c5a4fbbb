package meta_test

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// TestWritten: a removal waits for a resource that writes the object, and learns where it has to stay. Two resources
// may write an object at the same time, and other objects don't count.
func TestWritten(t *testing.T) {
	t.Parallel()
	var w meta.Written
	if staying, removed := w.Removing("image", "vms/base"); len(staying) > 0 {
		t.Errorf("nothing was written, but %v is to stay", staying)
	} else {
		removed()
	}
	one, other := w.Writing("image", "vms/base"), w.Writing("image", "vms/base")
	stays := make(chan []string)
	go func() {
		staying, removed := w.Removing("image", "vms/base")
		removed()
		stays <- staying
	}()
	one([]string{"kvm2"})
	select {
	case staying := <-stays:
		t.Errorf("removed while it is written, except on %v", staying)
	default:
	}
	other([]string{"kvm1"})
	if staying := <-stays; !slices.Equal(staying, []string{"kvm1", "kvm2"}) {
		t.Errorf("%v is to stay", staying)
	}
	for typeName, id := range map[string]string{"image": "vms/other", "volume": "vms/base"} {
		staying, removed := w.Removing(typeName, id)
		if removed(); len(staying) > 0 {
			t.Errorf("%s %s: %v is to stay", typeName, id, staying)
		}
	}
}
