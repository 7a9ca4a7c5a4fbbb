package libvirt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	golibvirt "libvirt.org/go/libvirt"
)

const (
	// vanishPatience is how long a step is tried whose pool vanishes each time: another run may have created the pool, and
	// remove it.
	vanishPatience = 20 * time.Second
	// poolPatience is how long a job of another program may prevent a pool from being refreshed or removed. poolPoll is
	// the interval of the attempts.
	poolPatience = 10 * time.Second
	poolPoll     = 100 * time.Millisecond
)

// errPoolVanished says that a pool is no longer there, or not yet.
var errPoolVanished = errors.New("the storage pool vanished")

// inDirectory refreshes the pool that covers a directory and runs f with it. It runs f again if the pool vanishes
// meanwhile. If the pool vanishes each time it returns ErrBusy, which says nothing about the directory's content. The
// caller must have called useDirectory.
func (c *conn) inDirectory(ctx context.Context, dir string, f func(*golibvirt.StoragePool) error) error {
	// Random pauses, or runs that began at the same time would remove each other's pools in step.
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 10*time.Millisecond, 200*time.Millisecond
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := c.tryInDirectory(ctx, dir, f)
		if err != nil && !errors.Is(err, errPoolVanished) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(vanishPatience))
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return contextCause(ctx)
	case errors.Is(err, errPoolVanished):
		return fmt.Errorf("%w: others make and remove the storage pool of %s all the time: %s", ErrBusy, dir,
			err.Error())
	default:
		return err
	}
}

func (c *conn) tryInDirectory(ctx context.Context, dir string, f func(*golibvirt.StoragePool) error) (err error) {
	c.countCall("virStoragePoolLookupByTargetPath")
	pool, err := c.c.LookupStoragePoolByTargetPath(dir)
	if codeOf(err) == golibvirt.ERR_NO_STORAGE_POOL {
		return c.inTransientPool(dir, f)
	}
	if err != nil {
		return err
	}
	defer func() { err = c.leavePool(pool, err) }()
	if err := c.isDirectory(pool, dir); err != nil {
		return err
	}
	// A pool knows its files only as of its last refresh, and refuses a refresh while a volume is being allocated.
	err = retryBusyPool(ctx, func() error {
		c.countCall("virStoragePoolRefresh")
		return pool.Refresh(0)
	})
	if err != nil {
		return err
	}
	return f(pool)
}

// inTransientPool creates a pool for the directory. If the pool vanishes, inDirectory starts again.
func (c *conn) inTransientPool(dir string, f func(*golibvirt.StoragePool) error) (err error) {
	c.countCall("virStoragePoolCreateXML")
	document := fmt.Sprintf("<pool type='dir'><name>%s</name><target><path>%s</path></target></pool>", poolName(dir),
		escapeXML(dir))
	pool, err := c.c.StoragePoolCreateXML(document, golibvirt.STORAGE_POOL_CREATE_NORMAL)
	if err != nil {
		return c.poolRefused(dir, err)
	}
	defer func() { err = c.leavePool(pool, err) }()
	return f(pool)
}

// leavePool frees a pool that was used, and finds out whether the use failed because the pool vanished.
func (c *conn) leavePool(pool *golibvirt.StoragePool, err error) error {
	vanished := codeOf(err) == golibvirt.ERR_NO_STORAGE_POOL
	// Who waited for the pool while it was being removed gets to see it once more, inactive.
	if codeOf(err) == golibvirt.ERR_OPERATION_INVALID {
		c.countCall("virStoragePoolIsActive")
		active, gone := pool.IsActive()
		vanished = gone == nil && !active || codeOf(gone) == golibvirt.ERR_NO_STORAGE_POOL
	}
	if vanished {
		err = fmt.Errorf("%w: %w", errPoolVanished, err)
	}
	return errors.Join(err, pool.Free())
}

// poolRefused finds out whether a pool could not be created because another pool covers the directory. A pool of
// another call counts as vanished: it becomes active, or is removed.
func (c *conn) poolRefused(dir string, refusal error) error {
	c.countCall("virStoragePoolLookupByTargetPath")
	if pool, err := c.c.LookupStoragePoolByTargetPath(dir); err == nil {
		_ = pool.Free()
		return fmt.Errorf("%w: another program has just made it", errPoolVanished)
	}
	c.countCall("virConnectListAllStoragePools")
	pools, err := c.c.ListAllStoragePools(golibvirt.CONNECT_LIST_STORAGE_POOLS_INACTIVE)
	if err != nil {
		return refusal
	}
	// libvirt has no error number of its own for a directory or a name that is in use.
	inUse := codeOf(refusal) == golibvirt.ERR_OPERATION_FAILED || codeOf(refusal) == golibvirt.ERR_OPERATION_INVALID
	for i := range pools {
		description, err := c.describePool(&pools[i])
		_ = pools[i].Free()
		if err == nil && path.Clean(description.Path) == dir && !isForACall(description.Name) {
			inUse = false
			refusal = fmt.Errorf("%w: storage pool %q of that directory is not started", ErrUnsupported, description.Name)
		}
	}
	if inUse {
		return fmt.Errorf("%w: %w", errPoolVanished, refusal)
	}
	return refusal
}

// users counts the calls that currently use a directory.
type users struct {
	mu sync.Mutex
	of map[string]int
}

// useDirectory registers that a call uses a directory until leave is called. The last call to leave removes the pool
// that was created for the directory; a call that comes just then creates another pool.
func (c *conn) useDirectory(ctx context.Context, dir string) (leave func()) {
	users := &c.host.directories
	add := func(n int) (left int) {
		users.mu.Lock()
		defer users.mu.Unlock()
		if users.of == nil {
			users.of = map[string]int{}
		}
		users.of[dir] += n
		return users.of[dir]
	}
	add(1)
	return func() {
		if add(-1) == 0 {
			c.leaveDirectory(ctx, dir)
		}
	}
}

// leaveDirectory removes the pool that was created for a directory; it touches nothing in the directory.
func (c *conn) leaveDirectory(ctx context.Context, dir string) {
	c.countCall("virStoragePoolLookupByName")
	pool, err := c.c.LookupStoragePoolByName(poolName(dir))
	if err != nil {
		return
	}
	defer func() { _ = pool.Free() }()
	err = retryBusyPool(ctx, func() error {
		c.countCall("virStoragePoolDestroy")
		return pool.Destroy()
	})
	// Another call or run may have removed the pool first, or is using it and will remove it.
	if err != nil && codeOf(err) != golibvirt.ERR_NO_STORAGE_POOL {
		c.host.log.Debug("a storage pool was not removed", "host", c.host.cfg.Name, "pool", poolName(dir), "error", err)
	}
}

// retryBusyPool repeats a call that libvirt refuses while a job runs on a pool, for which it has no error number of its
// own.
func retryBusyPool(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(poolPatience)
	tick := time.NewTicker(poolPoll)
	defer tick.Stop()
	for {
		err := f()
		if codeOf(err) != golibvirt.ERR_INTERNAL_ERROR || time.Now().After(deadline) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func poolName(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return directoryPrefix + hex.EncodeToString(sum[:8])
}
