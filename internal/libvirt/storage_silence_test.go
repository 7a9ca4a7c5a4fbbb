package libvirt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A pool that doesn't answer occupies one worker of the daemon, however often it is asked for. Other pools answer, and
// so does this one once its storage does.
func TestStorage_thatIsSilentIsAskedOnce(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	config := Config{Name: own.Name, URI: own.URI(), Dial: linkTo(own).Dial, storageLimit: 3 * time.Second}
	h := open(t, config)
	for _, pool := range []string{"silent", "well"} {
		dir := "/srv/" + pool
		must(t, h.DefineStoragePool(t.Context(), pool,
			fmt.Sprintf("<pool type='dir'><name>%s</name><target><path>%s</path></target></pool>", pool, dir)))
		must(t, h.BuildStoragePool(t.Context(), pool, false))
		must(t, h.StartStoragePool(t.Context(), pool))
		for _, name := range []string{"a", "b", "c"} {
			must(t, h.CreateVolume(t.Context(), NewVolume{Name: name, Pool: pool, Document: fmt.Sprintf(
				"<volume><name>%s</name><capacity>1048576</capacity><target><format type='qcow2'/></target></volume>", name)}))
		}
	}
	answer := own.SilenceDirectory(t, "/srv/silent")
	const reads = "virStorageVolGetXMLDesc"
	before := h.Calls()[reads]
	isSilent := func(err error) {
		t.Helper()
		s, ok := errors.AsType[*SilentStorage](err)
		if !ok || s.Pool != "silent" || s.Host != own.Name || !errors.Is(err, ErrStorageSilent) ||
			!errors.Is(err, ErrUnreachable) {
			t.Errorf("%v (%v), want that pool silent doesn't answer", err, s)
		}
	}

	var asking sync.WaitGroup
	for i := range 5 {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second+time.Duration(i)*500*time.Millisecond)
			defer cancel() // The deadlines of some callers come first.
			_, err := h.PoolVolumes(ctx, "silent")
			isSilent(err)
		})
	}
	asking.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // Other pools are asked meanwhile.
		defer cancel()
		if _, err := h.VolumeNames(ctx, "well"); err != nil {
			t.Error(err)
		}
	})
	asking.Wait()
	if n := h.Calls()[reads] - before; n != 1 {
		t.Errorf("%d calls wait for the storage, want one", n)
	}

	asked := h.Calls()
	for what, ask := range map[string]func(context.Context) error{
		"a volume":             func(ctx context.Context) error { _, err := h.PoolVolume(ctx, "silent", "a"); return err },
		"the pool":             func(ctx context.Context) error { _, err := h.StoragePool(ctx, "silent"); return err },
		"all pools":            func(ctx context.Context) error { _, err := h.StoragePools(ctx); return err },
		"a path":               func(ctx context.Context) error { _, err := h.FreeSpace(ctx, "/srv/silent"); return err },
		"a path of another":    func(ctx context.Context) error { _, err := h.VolumeByPath(ctx, "/srv/well/a"); return err },
		"a header":             func(ctx context.Context) error { _, err := h.ImageHeader(ctx, "/srv/silent/a"); return err },
		"a directory":          func(ctx context.Context) error { _, err := h.Directory(ctx, "/srv/silent"); return err },
		"a refresh":            func(ctx context.Context) error { return h.RefreshStoragePool(ctx, "silent") },
		"a download":           func(ctx context.Context) error { return h.DownloadVolume(ctx, "silent", "a", nil) },
		"the end of a volume":  func(ctx context.Context) error { return h.DeleteVolume(ctx, "silent", "a") },
		"the end of the pool":  func(ctx context.Context) error { return h.StopStoragePool(ctx, "silent") },
		"the end of some file": func(ctx context.Context) error { return h.RemoveFile(ctx, "/srv/well/other") },
	} {
		t.Log(what)
		isSilent(ask(t.Context()))
	}
	if now := h.Calls(); !maps.Equal(asked, now) {
		t.Errorf("more was asked: %v, %v before", now, asked)
	}
	_, err := h.PoolVolumes(t.Context(), "well")
	must(t, err)

	// Another process waits for the first one's call. The pool that it asks for isn't blamed.
	next := open(t, config)
	_, err = next.VolumeByPath(t.Context(), "/srv/well/none") // It looks in all pools.
	if s, ok := errors.AsType[*SilentStorage](err); !ok || s.Pool != "" || !s.Elsewhere {
		t.Errorf("%v (%v), want that some pool doesn't answer", err, s)
	}
	_, err = next.PoolVolumes(t.Context(), "well")
	must(t, err)

	answer()
	eventually(t, "the pool to answer", func() bool {
		_, err := h.PoolVolumes(t.Context(), "silent")
		if err != nil && !errors.Is(err, ErrStorageSilent) {
			t.Fatal(err)
		}
		return err == nil
	})
	_, err = h.StoragePools(t.Context())
	must(t, err)

	// If it is the host that doesn't answer, one call finds that out for all.
	must(t, own.FreezeLibvirtd(t.Context()))
	causes := make(chan error, 4)
	for range cap(causes) {
		asking.Go(func() {
			_, err := next.PoolVolumes(t.Context(), "silent")
			e, ok := errors.AsType[*Error](err)
			if !ok || !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrStorageSilent) {
				t.Errorf("%v, want that the host doesn't answer", err)
				return
			}
			causes <- e.Err
		})
	}
	asking.Wait()
	must(t, own.ThawLibvirtd(t.Context()))
	close(causes)
	first := <-causes
	for other := range causes {
		if other != first { //nolint:errorlint // Is it the same one?
			t.Errorf("it was asked again: %v; %v", first, other)
		}
	}
}

// Those that wait for a call which finds that the host doesn't answer return its error. If the call says nothing about
// the host, the next of them asks.
func TestSilences_waitersLearnThatTheHostIsSilent(t *testing.T) {
	t.Parallel()
	for _, hostSilent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := &Host{ctx: t.Context()}
			ask := func() (*storageCall, func(error), error) {
				spec := readCall("asking")
				spec.storage = &storageCall{storage: storage{pool: "vms", reads: true}}
				leave, err := h.silences.enter(t.Context(), h, spec)
				return spec.storage, leave, err
			}
			first, leave, err := ask()
			must(t, err)
			silence := fmt.Errorf("no answer: %w", context.DeadlineExceeded)
			failed := &Error{Host: "kvm1", Operation: "reading", Kind: ErrUnreachable, Err: silence}
			asked, learned := 0, 0
			var waiting sync.WaitGroup
			for range 3 {
				waiting.Go(func() {
					_, leave, err := ask()
					if err == nil {
						asked++ // One at a time.
						leave(failed)
						return
					}
					h.silences.mu.Lock()
					defer h.silences.mu.Unlock()
					learned++
					if e, ok := errors.AsType[*Error](err); !ok || e.Operation != "asking" ||
						!errors.Is(err, ErrUnreachable) || !errors.Is(err, silence) {
						t.Errorf("a waiter: %v", err)
					}
				})
			}
			synctest.Wait()
			first.hostSilent = hostSilent
			leave(failed)
			waiting.Wait()
			if hostSilent && learned != 3 || !hostSilent && asked != 3 {
				t.Errorf("the host is silent: %v; %d asked, %d learned it", hostSilent, asked, learned)
			}
			_, _, err = ask() // It wasn't waiting.
			must(t, err)
		})
	}
}
