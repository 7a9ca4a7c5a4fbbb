package lab

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

//go:embed gluster.sh
var glusterScript string

// stopGluster ends the server of a directory, and its brick first.
const stopGluster = `for pid in $(cat "$1"/run/vols/*/*.pid "$1/pid" 2>/dev/null); do
  kill -KILL "$pid" 2>/dev/null || continue
  while kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
done`

// Gluster is a Gluster volume that every host can reach.
type Gluster struct {
	// Host is where it is served, at the standard port.
	Host string
	// Volume is its name.
	Volume string

	lab *Lab
	dir string
}

// Gluster serves an empty volume, until the test ends. If another test has one, this test waits for its end. A client
// waits for 10 s when it closes a connection, so each start of a pool takes that long.
func (l *Lab) Gluster(t testing.TB, name string) *Gluster {
	t.Helper()
	unlock, err := l.lockGluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	ctx, cancel := stepContext(t)
	defer cancel()
	dir, _, err := l.claimExport(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gluster{Host: l.store.address, Volume: "vms", lab: l, dir: dir}
	cleanup(t, "stopping Gluster "+name, func(ctx context.Context) error {
		if _, err := l.store.run(ctx, "bash", "-c", stopGluster, "stop", dir); err != nil {
			return err
		}
		return l.RemoveExport(ctx, name)
	})
	if _, err := l.store.run(ctx, "bash", "-c", glusterScript, "gluster", dir, g.Host, g.Volume); err != nil {
		t.Fatalf("starting Gluster: %v\nthe end of its log: %s", err, tail(filepath.Join(dir, "glusterd.log")))
	}
	return g
}

// lockGluster waits until no other test, of this package or another one, has a Gluster server.
func (l *Lab) lockGluster() (unlock func(), err error) {
	lock := filepath.Join(l.Dir, "gluster")
	if err := os.MkdirAll(lock, 0o755); err != nil {
		return nil, fmt.Errorf("creating a lock: %w", err)
	}
	return lockDir(lock)
}

// CreateImage makes an image of that many bytes with qemu-img.
func (g *Gluster) CreateImage(t testing.TB, file, format string, size int64) {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	_, err := g.lab.store.run(ctx, "qemu-img", "create", "-q", "-f", format,
		"gluster://"+g.Host+"/"+g.Volume+"/"+file, strconv.FormatInt(size, 10))
	if err != nil {
		t.Fatal(err)
	}
}

// Path is where a file of the volume is, on the machine that the lab runs on.
func (g *Gluster) Path(file string) string { return filepath.Join(g.dir, "brick", file) }
