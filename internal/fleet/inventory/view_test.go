package inventory

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A reading that began before a write is not what is known after it, whichever way the writer says that there was one.
func TestHost_olderReadingIsNotPublished(t *testing.T) {
	t.Parallel()

	for name, write := range map[string]func(*Host){
		"forget": (*Host).Forget, "record": (*Host).ForgetRecord,
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

// A write during a reading is in it, whichever of the two the host was asked first for.
func TestHost_readingHasWhatWasRemembered(t *testing.T) {
	t.Parallel()

	h, l := &Host{}, &loading{done: make(chan struct{})}
	h.loading = l
	h.Remember("gone", nil)
	h.Remember("new", &libvirt.Domain{UUID: "new", Name: "now"})
	h.publish(l, NewView(nil, map[string]*Entry{"gone": NewEntry(libvirt.Domain{UUID: "gone"}), "other": {}}))

	if !l.published || h.view != l.view || len(h.view.Domains) != 2 || h.view.Domains["new"].Name != "now" {
		t.Errorf("%+v, published %v; want it with the writes", h.view, l.published)
	}
}

// What is read again and hasn't changed leaves the view the latest one: waits read their VMs again and again, and a
// reservation is made only with the latest view.
func TestHost_viewStaysWhileNothingChanges(t *testing.T) {
	t.Parallel()

	was := libvirt.Domain{UUID: "a", Name: "web", PersistentXML: "<domain/>"}
	renamed := was
	renamed.Name = "db"

	for name, tt := range map[string]struct {
		uuid  string
		read  *libvirt.Domain
		stays bool
	}{
		"unchanged": {"a", new(was), true}, "still not there": {"b", nil, true},
		"changed": {"a", &renamed, false}, "gone": {"a", nil, false}, "new": {"b", &libvirt.Domain{UUID: "b"}, false},
	} {
		v := NewView(nil, map[string]*Entry{"a": NewEntry(was)})
		h := &Host{view: v}
		h.Remember(tt.uuid, tt.read)

		if e := h.view.Domains[tt.uuid]; h.IsLatest(v) != tt.stays || (e == nil) != (tt.read == nil) ||
			e != nil && e.Domain != *tt.read {
			t.Errorf("%s: the view stays: %v, want %v; it has %+v", name, h.IsLatest(v), tt.stays, e)
		}
	}
}

// onRead is called when a host was read, before that becomes its view.
type onRead struct{ do func() }

func (o onRead) Enabled(context.Context, slog.Level) bool { return true }

func (o onRead) WithAttrs([]slog.Attr) slog.Handler { return o }

func (o onRead) WithGroup(string) slog.Handler { return o }

func (o onRead) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "host read" {
		o.do()
	}

	return nil
}

// A view has the host's record. What reads the record as well, as nearly every plan does, asks the host nothing more.
func TestSnapshot_hasTheRecord(t *testing.T) {
	t.Parallel()

	inv, err := New(map[string]HostConfig{"h": {URI: "test:///default"}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = inv.Close() })

	answers, err := inv.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	before := inv.Calls()

	for range 2 {
		if record, err := answers[0].RecordOf(t.Context()); err != nil || record == nil {
			t.Fatalf("%v, %v", record, err)
		}
	}

	if diff := cmp.Diff(before, inv.Calls()); diff != "" {
		t.Errorf("reading the record took calls of its own (-before +after):\n%s", diff)
	}

	// A record that may have changed is read again, once.
	h := inv.Host("h")
	h.ForgetRecord()

	if answers, err = inv.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		if _, err := answers[0].RecordOf(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	if n := inv.Calls()["h"]["virSecretLookupByUsage"]; n != 2 {
		t.Errorf("the record was read %d times, want twice", n)
	}
}

// However much is written meanwhile, a host is asked once: this is done while other runs wait for its lock.
func TestRenew_asksOnce(t *testing.T) {
	t.Parallel()

	for name, write := range map[string]func(*Host){
		"nothing": func(*Host) {}, "remember": func(h *Host) { h.Remember("a", &libvirt.Domain{UUID: "a"}) },
		"forget": (*Host).Forget, "record": (*Host).ForgetRecord,
	} {
		var h *Host

		read := 0
		inv, err := New(map[string]HostConfig{"h": {URI: "test:///default"}}, slog.New(onRead{do: func() {
			if read++; h != nil && read < 5 {
				write(h)
			}
		}}))
		if err != nil {
			t.Fatal(err)
		}

		before, err := inv.ViewOf(t.Context(), inv.Host("h"))
		if err != nil {
			t.Fatal(err)
		}

		h, read = inv.Host("h"), 0

		if err := inv.Renew(t.Context(), h); err != nil || read != 1 || h.IsLatest(before) {
			t.Errorf("%s: %v, read %d times, still the view from before: %v", name, err, read, h.IsLatest(before))
		}

		if err := inv.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A guest that is kept after it has panicked has a process, which its state alone doesn't say. A view that has it lacks
// nothing: each poll would otherwise read the whole host again.
func TestView_lacks(t *testing.T) {
	t.Parallel()

	kept := libvirt.Domain{UUID: "1", Name: "web", State: libvirt.Crashed, LiveXML: "<domain/>"}
	v := &View{Domains: map[string]*Entry{kept.UUID: NewEntry(kept)}}

	for state, lacks := range map[libvirt.DomainState]bool{
		libvirt.Crashed: false, libvirt.Running: false, libvirt.Shutoff: true,
	} {
		if v.lacks(libvirt.DomainStats{UUID: kept.UUID, Name: kept.Name, State: state}) != lacks {
			t.Errorf("%s: lacks it: %t", state, !lacks)
		}
	}
}
