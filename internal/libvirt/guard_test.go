package libvirt

import (
	"context"
	"errors"
	"testing"
	"time"
)

// No question takes longer than its own limit, whatever time the caller has; what may take its time has the caller's.
func TestBound_questionsHaveTheirOwnLimit(t *testing.T) {
	t.Parallel()
	h := testDriver(t)
	long, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	tests := map[string]struct {
		ctx  context.Context
		s    callSpec
		most time.Duration
	}{
		"a question, no deadline":    {t.Context(), readCall("x"), readTimeout},
		"a question, long":           {long, readCall("x"), readTimeout},
		"a question, short":          {short, readCall("x"), time.Second},
		"all of a kind, long":        {long, readingAll("x"), bulkTimeout},
		"a definition, long":         {long, defineCall("x"), readTimeout},
		"a question to QEMU, long":   {long, monitorCall("x"), readTimeout},
		"an order to a job, long":    {long, jobControlCall("x"), readTimeout},
		"a question to agents, long": {long, agentCall("x"), agentTimeout},
		"a change, no deadline":      {t.Context(), changeCall("x"), slowTimeout},
		"a change, long":             {long, changeCall("x"), time.Hour},
	}
	for name, test := range tests {
		ctx, done := h.withDeadline(test.ctx, test.s)
		at, ok := ctx.Deadline()
		if left := time.Until(at); !ok || left > test.most || left < test.most-time.Minute/2 {
			t.Errorf("%s: it has %v, want %v", name, left, test.most)
		}
		done()
	}
}

// A guard is asked before each change, and before no question.
func TestGuarded_refusesChanges(t *testing.T) {
	t.Parallel()
	uuid := uuidOf(1)
	h := testDriver(t, testDomain("web", uuid))
	refused := errors.New("not yours any more")
	asked := 0
	ctx := Guarded(t.Context(), func(context.Context) error { asked++; return refused })
	d, err := h.Domain(ctx, uuid)
	must(t, err)
	if !d.Active() || asked > 0 {
		t.Fatalf("%+v, asked %d times", d, asked)
	}
	want(t, h.DestroyDomain(ctx, uuid, false), refused)
	_, err = h.DefineDomain(ctx, testDomain("db", uuidOf(2)))
	want(t, err, refused)
	if d, err = h.Domain(ctx, uuid); err != nil || !d.Active() || asked != 2 {
		t.Errorf("%+v, %v, asked %d times", d, err, asked)
	}
	must(t, h.DestroyDomain(Guarded(ctx, nil), uuid, false))
}
