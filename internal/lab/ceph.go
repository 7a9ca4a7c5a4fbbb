package lab

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

//go:embed ceph.sh
var cephScript string

// stopCeph ends the cluster of a directory.
const stopCeph = `for pid in $(cat "$1"/mon.pid "$1"/osd.pid 2>/dev/null); do
  kill -KILL "$pid" 2>/dev/null || continue
  while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
done`

// Ceph is a cluster that every host can reach, with one pool for RBD.
type Ceph struct {
	// Host and Port are where its monitor is.
	Host string
	Port int
	// Pool is the pool, Username and Key are who may use it (cephx).
	Pool, Username, Key string

	lab *Lab
	dir string
}

// Ceph starts a cluster, until the test ends. It takes some seconds.
func (l *Lab) Ceph(t testing.TB, name string) *Ceph {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	dir, port, err := l.claimExport(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &Ceph{Host: l.store.address, Port: port, Pool: "vms", Username: "libvirt", lab: l, dir: dir}
	cleanup(t, "stopping Ceph "+name, func(ctx context.Context) error {
		if _, err := l.store.run(ctx, "bash", "-c", stopCeph, "stop", dir); err != nil {
			return err
		}
		return l.RemoveExport(ctx, name)
	})
	key, err := l.store.run(ctx, "bash", "-c", cephScript, "ceph", dir, c.Host, strconv.Itoa(port), c.Pool)
	if err != nil {
		t.Fatalf("starting Ceph: %v\nthe end of the monitor's log: %s", err, tail(dir+"/mon.log"))
	}
	c.Key = strings.TrimSpace(key)
	return c
}

// ConfigFile is by what its administrator reaches it.
func (c *Ceph) ConfigFile() string { return c.dir + "/ceph.conf" }

// ClientFile tells QEMU on the hosts where the cluster is.
func (c *Ceph) ClientFile() string { return c.dir + "/client.conf" }

// Fill makes the cluster full with what it has: clients that write wait. It returns what gives it room again.
func (c *Ceph) Fill(t testing.TB) (room func()) {
	t.Helper()
	run := func(args string) string {
		ctx, cancel := stepContext(t)
		defer cancel()
		out, err := c.lab.store.run(ctx, "env", append([]string{"CEPH_CONF=" + c.ConfigFile(), "ceph"},
			strings.Fields(args)...)...)
		if err != nil {
			t.Fatal(fmt.Errorf("telling Ceph when it is full: %w", err))
		}
		return out
	}
	become := func(full bool, ratios ...string) {
		for _, ratio := range ratios {
			run("osd set-" + ratio)
		}
		Await(t, "Ceph to notice whether it is full", func() bool {
			return strings.Contains(run("osd dump"), " exists,full,") == full
		})
	}
	become(true, "nearfull-ratio 0.0001", "backfillfull-ratio 0.0002", "full-ratio 0.0003")
	return func() { become(false, "full-ratio 0.95", "backfillfull-ratio 0.9", "nearfull-ratio 0.85") }
}

// RBD runs rbd as the cluster's administrator, and returns what it printed.
func (c *Ceph) RBD(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	out, err := c.lab.store.run(ctx, "env", append([]string{"CEPH_CONF=" + c.ConfigFile(), "rbd"}, args...)...)
	if err != nil {
		t.Fatal(fmt.Errorf("asking Ceph: %w", err))
	}
	return out
}
