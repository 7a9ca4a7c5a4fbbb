package inventory

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// manyArriving are records of many moves. The file of the VM "7" is /vms/7.
func manyArriving() map[string]ArrivingFiles {
	arriving := map[string]ArrivingFiles{}
	for i := range 40 {
		arriving[fmt.Sprint(i)] = ArrivingFiles{VM: fmt.Sprint("vm-", i), Paths: []string{fmt.Sprint("/vms/", i)}}
	}

	return arriving
}

// TestUnfinished: however much arrives on a host, it compares each file once, and none after it was late once.
func TestUnfinished(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		hangs bool
		uuid  string
		asked int
		half  []string
		takes time.Duration
	}{
		"it answers":             {asked: 3, half: []string{"/link", "/vms/3"}},
		"the VM's own":           {uuid: "7", asked: 3, half: []string{"/vms/3"}},
		"it hangs":               {hangs: true, asked: 1, half: []string{"/vms/3"}, takes: AskTimeout},
		"the VM's own, it hangs": {hangs: true, uuid: "3", asked: 1, takes: AskTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			h := &Host{Name: "kvm2", Config: HostConfig{
				SameFile: func(ctx context.Context, file string, paths ...string) ([]string, error) {
					asked++

					if c.hangs {
						<-ctx.Done()

						return nil, ctx.Err()
					}

					if file != "/link" || !slices.Contains(paths, "/vms/7") {
						return nil, nil
					}

					return []string{"/vms/7"}, nil
				},
			}}
			began := time.Now()
			half := h.Unfinished(t.Context(), manyArriving(), []string{"/a", "/b", "/link", "/vms/3", "relative"}, c.uuid)

			var files []string

			for file, f := range half {
				if files = append(files, file); f.Why == "" || f.Remedy == "" {
					t.Errorf("%s: of %s it says %+v", name, file, f)
				}
			}

			slices.Sort(files)

			if took := time.Since(began); asked != c.asked || !slices.Equal(files, c.half) || took != c.takes {
				t.Errorf("%s: %d comparisons in %v, half are %v", name, asked, took, files)
			}
		})
	}
}

// TestVerifyWhole: hosts are asked only for a VM whose file it may be. Once the VM is on the host, the file is whole.
func TestVerifyWhole(t *testing.T) {
	t.Parallel()

	const there = "6f3c1ba0-3c5e-4a4e-9d1c-52d1c5a6e001"

	node := filepath.Join(t.TempDir(), "node.xml")
	vm := `<node><domain type='test'><name>there</name><uuid>` + there + `</uuid><memory>1024</memory>` +
		`<os><type>hvm</type></os></domain></node>`

	if err := os.WriteFile(node, []byte(vm), 0o600); err != nil {
		t.Fatal(err)
	}

	inv, err := New(map[string]HostConfig{"h": {URI: "test://" + node}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = inv.Close() })

	h := inv.Host("h")

	arriving := manyArriving()
	arriving[there] = ArrivingFiles{VM: "there", Paths: []string{"/vms/there"}}

	for _, c := range []struct {
		file   string
		lookup int
		half   bool
	}{{"/vms/none", 0, false}, {"/vms/there", 1, false}, {"/vms/7", 2, true}} {
		before := h.Conn.Calls()["virDomainLookupByUUIDString"]
		err := inv.verifyWhole(t.Context(), h, maps.Clone(arriving), c.file)
		asked := h.Conn.Calls()["virDomainLookupByUUIDString"] - before

		if (err != nil) != c.half || asked > c.lookup || (asked == 0) != (c.lookup == 0) {
			t.Errorf("%s: %d VMs were looked for: %v", c.file, asked, err)
		}
	}
}
