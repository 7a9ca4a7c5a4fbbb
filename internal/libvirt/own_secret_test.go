package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// labHost opens one of the lab's shared hosts through a relay, as over SSH but without the SSH.
func TestSecret_isALock(t *testing.T) {
	t.Parallel()
	h, _, _ := labHost(t)
	ctx := t.Context()
	id := "virtfleet:test " + lab.Name(t)
	t.Cleanup(func() { _ = h.UndefineOwnSecret(context.WithoutCancel(ctx), OwnSecret{UsageID: id}) })
	_, err := h.OwnSecret(ctx, id)
	want(t, err, ErrNotFound)
	var mu sync.Mutex
	winners := []string{}
	var rivals sync.WaitGroup
	for i := range 10 {
		rivals.Go(func() {
			value := fmt.Sprintf("rival %d", i)
			err := h.DefineOwnSecret(ctx, OwnSecret{UsageID: id, Description: value, Value: []byte(value)})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners = append(winners, value)
			} else if !errors.Is(err, ErrExists) {
				t.Error(err)
			}
		})
	}
	rivals.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d have the lock: %v", len(winners), winners)
	}
	s, err := h.OwnSecret(ctx, id)
	must(t, err)
	expected := OwnSecret{
		UUID: s.UUID, UsageType: SecretUsageVTPM, UsageID: id, Description: winners[0], Value: []byte(winners[0]),
	}
	if diff := cmp.Diff(expected, *s); diff != "" {
		t.Error(diff)
	}
	ids, err := h.OwnSecretIDs(ctx, id)
	must(t, err)
	if diff := cmp.Diff([]string{id}, ids); diff != "" {
		t.Error(diff)
	}
	must(t, h.SetOwnSecretValue(ctx, OwnSecret{UsageID: id, Value: []byte("other")}))
	s, err = h.OwnSecret(ctx, id)
	must(t, err)
	if string(s.Value) != "other" {
		t.Errorf("got value %q", s.Value)
	}

	// Whoever names a secret by its UUID never hits one that took its place.
	must(t, h.UndefineOwnSecret(ctx, *s))
	must(t, h.DefineOwnSecret(ctx, OwnSecret{UsageID: id, Value: []byte("successor")}))
	want(t, h.UndefineOwnSecret(ctx, *s), ErrNotFound)
	want(t, h.SetOwnSecretValue(ctx, *s), ErrNotFound)
	must(t, h.UndefineOwnSecret(ctx, OwnSecret{UsageID: id}))
	want(t, h.UndefineOwnSecret(ctx, OwnSecret{UsageID: id}), ErrNotFound)
	must(t, h.DefineOwnSecret(ctx, OwnSecret{UsageID: id}))
	s, err = h.OwnSecret(ctx, id)
	must(t, err)
	if s.Value != nil {
		t.Errorf("got value %q of a secret without one", s.Value)
	}
	must(t, h.UndefineOwnSecret(ctx, *s))

	// Whoever has defined a secret looks it up no more, and still learns that another took its place.
	other, _, _ := labHost(t)
	mine := OwnSecret{UUID: uuid.NewString(), UsageID: id, Value: []byte("mine")}
	before := h.Calls()["virSecretLookupByUUIDString"]
	must(t, h.DefineOwnSecret(ctx, mine))
	must(t, h.SetOwnSecretValue(ctx, mine))
	if n := h.Calls()["virSecretLookupByUUIDString"] - before; n != 0 {
		t.Errorf("looked up %d times", n)
	}
	must(t, other.UndefineOwnSecret(ctx, mine))
	must(t, other.DefineOwnSecret(ctx, OwnSecret{UsageID: id, Value: []byte("theirs")}))
	want(t, h.SetOwnSecretValue(ctx, mine), ErrNotFound)
	want(t, h.UndefineOwnSecret(ctx, mine), ErrNotFound)
	s, err = h.OwnSecret(ctx, id)
	must(t, err)
	if string(s.Value) != "theirs" {
		t.Errorf("got value %q", s.Value)
	}
}
