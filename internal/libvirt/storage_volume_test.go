package libvirt

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	golibvirt "libvirt.org/go/libvirt"
)

// TestPoolVolumes_poolRestarted: while others stop and start a pool, its volumes are read, or the error says that the
// pool isn't active. It is never a refusal without a reason.
func TestPoolVolumes_poolRestarted(t *testing.T) {
	t.Parallel()
	h := open(t, Config{URI: "test:///default"})
	const pool = "restarted"
	if err := h.DefineStoragePool(t.Context(), pool,
		`<pool type="dir"><name>restarted</name><target><path>/srv/restarted</path></target></pool>`); err != nil {
		t.Fatal(err)
	}
	start := func() {
		if err := h.StartStoragePool(t.Context(), pool); err != nil {
			t.Error(err)
		}
	}
	start()
	if err := h.CreateVolume(t.Context(), NewVolume{
		Pool: pool, Name: "data", Document: `<volume><name>data</name><capacity>1</capacity></volume>`,
	}); err != nil {
		t.Fatal(err)
	}
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		for range 1000 {
			if err := h.StopStoragePool(t.Context(), pool); err != nil {
				t.Error(err)
			}
			start()
		}
	}()
	for {
		_, listErr := h.PoolVolumes(t.Context(), pool)
		_, readErr := h.PoolVolume(t.Context(), pool, "data")
		refreshErr := h.RefreshStoragePool(t.Context(), pool)
		for _, err := range []error{listErr, readErr, refreshErr} {
			if err != nil && !errors.Is(err, ErrPoolInactive) {
				t.Error(err)
			}
		}
		select {
		case <-restarted:
			return
		default:
		}
	}
}

// An encrypted volume is tried again where qemu-img gave up, which it does by chance on a busy host: not without end,
// and not after any other error. Another volume isn't: copying its content may have taken long.
func TestTryVolume(t *testing.T) {
	t.Parallel()
	failed := golibvirt.Error{Code: golibvirt.ERR_INTERNAL_ERROR}
	exists := golibvirt.Error{Code: golibvirt.ERR_STORAGE_VOL_EXIST}
	for name, test := range map[string]struct {
		plain bool
		errs  []error
		tries int
	}{
		"at once":         {errs: []error{nil}, tries: 1},
		"at the third":    {errs: []error{failed, failed, nil}, tries: 3},
		"never":           {errs: []error{failed, failed, failed, failed, nil}, tries: volumeTries},
		"another error":   {errs: []error{exists, nil}, tries: 1},
		"another error 2": {errs: []error{failed, exists, nil}, tries: 2},
		"not encrypted":   {plain: true, errs: []error{failed, nil}, tries: 1},
	} {
		tries := 0
		_, err := tryVolume(!test.plain, func() (*golibvirt.StorageVol, error) {
			tries++
			return nil, test.errs[tries-1]
		})
		if tries != test.tries || !errors.Is(err, test.errs[test.tries-1]) {
			t.Errorf("%s: %d tries, %v", name, tries, err)
		}
	}
}

// TestRetryStale: a volume is read again while its file is stale, until libvirt says what is there, the attempts are
// over or the caller gives up. Nothing else is read again.
func TestRetryStale(t *testing.T) {
	t.Parallel()
	stale := golibvirt.Error{Code: golibvirt.ERR_SYSTEM_ERROR, Message: "cannot read header '/x': Stale file handle"}
	gone := golibvirt.Error{Code: golibvirt.ERR_NO_STORAGE_VOL, Message: "no storage vol with matching path"}
	broken := golibvirt.Error{Code: golibvirt.ERR_SYSTEM_ERROR, Message: "cannot read header '/x': Input/output error"}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		stale int // The number of attempts that find it stale.
		then  error
		want  error
		reads int
	}{
		"read":             {then: nil, reads: 1},
		"replaced":         {stale: 2, then: nil, reads: 3},
		"removed":          {stale: 2, then: gone, want: gone, reads: 3},
		"broken":           {then: broken, want: broken, reads: 1},
		"stale for good":   {stale: 100, want: stale, reads: staleTries},
		"caller gives up":  {ctx: over, stale: 100, want: stale, reads: 1},
		"nothing to retry": {ctx: over, then: gone, want: gone, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.ctx != nil {
					ctx = c.ctx
				}
				reads := 0
				document, err := retryRead(ctx, isStale, func() (string, error) {
					reads++
					if reads <= c.stale {
						return "", stale
					}
					return "<volume/>", c.then
				})
				if !errors.Is(err, c.want) || reads != c.reads || err == nil && document != "<volume/>" {
					t.Errorf("read %d times: %q, %v; want %d times and %v", reads, document, err, c.reads, c.want)
				}
			})
		})
	}
}

// TestIsNoPool: a call about a pool and a call about a volume in it say that the host lacks the pool, and a missing
// volume isn't a missing pool.
func TestIsNoPool(t *testing.T) {
	t.Parallel()
	h := open(t, Config{URI: "test:///default"})
	_, ofPool := h.StoragePool(t.Context(), "absent")
	_, ofVolume := h.PoolVolume(t.Context(), "absent", "disk")
	_, noVolume := h.PoolVolume(t.Context(), "default-pool", "absent")
	if !IsNoPool(ofPool) || !IsNoPool(ofVolume) || noVolume == nil || IsNoPool(noVolume) || IsNoPool(nil) {
		t.Errorf("pool: %v, volume in it: %v, volume: %v", ofPool, ofVolume, noVolume)
	}
}
