package placement

import (
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// wholeCopies are the images' copies that were found to be whole. A plan asks that for each new disk and each host, and
// the answer takes a part of the copy to be read, or all of it if it begins with zeros.
type wholeCopies struct {
	mu    sync.Mutex
	known map[wholeCopy]bool
}

// wholeCopy is a copy as it was when it was found to be whole. A file that changes gets another time.
type wholeCopy struct {
	host   string
	volume libvirt.Volume
}

// check returns what read returns, and calls it only once for a whole copy of which the time of its last change is
// known. A copy that isn't whole may become so at any time.
func (w *wholeCopies) check(host string, v libvirt.Volume, read func() (bool, error)) (bool, error) {
	c := wholeCopy{host, v}

	w.mu.Lock()
	known := w.known[c]
	w.mu.Unlock()

	if known {
		return true, nil
	}

	whole, err := read()
	if !whole || err != nil || v.Changed == "" {
		return whole, err
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if w.known == nil {
		w.known = make(map[wholeCopy]bool)
	}

	w.known[c] = true

	return true, nil
}
