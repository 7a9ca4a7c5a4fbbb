package inventory

import "testing"

// A reading that began before a write is not what is known after it, whichever way the writer says that there was one.
func TestHost_olderReadingIsNotPublished(t *testing.T) {
	t.Parallel()

	for name, write := range map[string]func(*Host){
		"forget": (*Host).Forget, "remember": func(h *Host) { h.Remember("a", nil) }, "record": (*Host).ForgetRecord,
	} {
		h, old := &Host{}, &loading{done: make(chan struct{})}
		h.loading = old
		write(h)

		next := &loading{done: make(chan struct{})}
		if h.loading == nil {
			h.loading = next
		}

		h.publish(old, &View{})

		if h.view != nil || h.loading != next || old.view == nil {
			t.Errorf("%s: %+v; want that only who waited for it gets the older reading", name, h)
		}

		h.publish(next, &View{})

		if h.view != next.view || h.loading != nil {
			t.Errorf("%s: the newer reading is not there", name)
		}
	}
}
