package libvirt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestMigrate_endsEarly has migrations end early, one after the other. Each leaves the guest where it is.
func TestMigrate_endsEarly(t *testing.T) {
	t.Parallel()
	l, a, _ := sides(t)
	uuid := writingGuest(t, l, a)
	for name, ends := range map[string]func(*testing.T, string){
		"aborted": isAborted, "connection lost": survivesTheLossOfAConnection, "host closed": endsWithItsHost,
	} {
		t.Run(name, func(t *testing.T) { ends(t, uuid) })
	}
}

func isAborted(t *testing.T, uuid string) {
	t.Helper()
	_, a, b := sides(t)
	_, err := b.Networks(t.Context())
	must(t, err)
	streams := b.link.streams()

	// By whoever aborts the job.
	result := begin(t.Context(), uuid, a, b, Migration{Bandwidth: slowly})
	awaitJob(t, a, uuid, "memory to be copied", copying)
	must(t, a.AbortJob(t.Context(), uuid))
	err = <-result
	want(t, err, ErrAborted)
	if errors.Is(err, context.Canceled) {
		t.Errorf("%v blames the caller", err)
	}
	runsOnlyAt(t, uuid, a, b)
	want(t, a.AbortJob(t.Context(), uuid), ErrOperationInvalid)

	// By a target that can't be reached, or not in this way.
	for uri, kind := range map[string]error{
		"tcp://" + b.machine.Address + ":22":    ErrInternal,
		"rdma://" + b.machine.Address:           ErrOperationInvalid,
		"gopher://" + b.machine.Address + ":22": ErrUnsupported,
	} {
		start := time.Now()
		err := a.Migrate(t.Context(), uuid, b.Host, Migration{URI: uri})
		t.Logf("after %v: %v", time.Since(start).Round(time.Millisecond), err)
		want(t, err, kind)
		runsOnlyAt(t, uuid, a, b)
	}

	// By its context, at any stage.
	for _, delay := range []int{0, 20, 100, 400, 1000} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(delay)*time.Millisecond)
		start := time.Now()
		err := <-begin(ctx, uuid, a, b, Migration{Bandwidth: slowly})
		t.Logf("after %v ms, %v later: %v", delay, time.Since(start).Round(time.Millisecond), err)
		want(t, err, context.DeadlineExceeded)
		if !errors.Is(err, ErrAborted) && !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v is neither", err)
		}
		cancel()
		runsOnlyAt(t, uuid, a, b)
	}
	// By a caller who doesn't wait any longer, whom nothing tells how it ends.
	giveUp := make(chan struct{})
	result = begin(t.Context(), uuid, a, b, Migration{Bandwidth: slowly, GiveUp: giveUp})
	awaitJob(t, a, uuid, "memory to be copied", copying)
	close(giveUp)
	err = <-result
	want(t, err, ErrAbandoned)
	want(t, err, ErrUnreachable)
	eventually(t, "the host to notice", func() bool {
		job, err := a.Job(t.Context(), uuid)
		_, missing := b.Domain(t.Context(), uuid)
		return err == nil && job == nil && errors.Is(missing, ErrNotFound)
	})
	runsOnlyAt(t, uuid, a, b)
	eventually(t, "the migrations' connections to be closed", func() bool { return b.link.streams() == streams })
}

func survivesTheLossOfAConnection(t *testing.T, uuid string) {
	t.Helper()
	_, a, b := sides(t)
	for _, lost := range []side{b, a} {
		result := begin(t.Context(), uuid, a, b, Migration{Bandwidth: slowly})
		awaitJob(t, a, uuid, "memory to be copied", copying)
		lost.link.cut()
		err := <-result
		t.Log(err)
		want(t, err, ErrUnreachable)
		if !strings.HasPrefix(err.Error(), "host "+lost.Name()) {
			t.Errorf("%v doesn't name host %s", err, lost.Name())
		}
		eventually(t, "the host to notice", func() bool {
			job, err := a.Job(t.Context(), uuid)
			_, missing := b.Domain(t.Context(), uuid)
			return err == nil && job == nil && errors.Is(missing, ErrNotFound)
		})
		runsOnlyAt(t, uuid, a, b)
	}
}

func endsWithItsHost(t *testing.T, uuid string) {
	t.Helper()
	_, a, b := sides(t)
	for _, stalled := range []bool{false, true} {
		_, from, to := sides(t)
		result := begin(t.Context(), uuid, from, to, Migration{Bandwidth: slowly})
		awaitJob(t, a, uuid, "memory to be copied", copying)
		kind := ErrAborted
		if stalled {
			// Aborting doesn't work then either, so the call is given up.
			resume := from.link.stall()
			defer resume()
			kind = ErrClosed
		}
		must(t, to.Close())
		err := <-result
		t.Log(err)
		want(t, err, kind)
		must(t, from.Close())
		eventually(t, "all connections to be closed", func() bool {
			return from.link.streams()+to.link.streams() == 0
		})
		eventually(t, "the host to notice", func() bool {
			job, err := a.Job(t.Context(), uuid)
			_, missing := b.Domain(t.Context(), uuid)
			return err == nil && job == nil && errors.Is(missing, ErrNotFound)
		})
		runsOnlyAt(t, uuid, a, b)
	}
}
