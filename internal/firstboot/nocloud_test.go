package firstboot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kdomanski/iso9660"
)

const instance = "5d2f1c8e-3b0a-4e0e-9d7c-0c9a2b7f1a11"

// full has every file, one of them larger than a sector.
func full() NoCloud {
	return NoCloud{
		InstanceID: instance, Hostname: "web",
		UserData:      "#cloud-config\npassword: hunter2\nwrite_files:\n- content: " + strings.Repeat("x", 5000) + "\n",
		VendorData:    "#!/bin/sh\ntrue\n",
		NetworkConfig: "version: 2\nethernets:\n  eth0: {dhcp4: true}\n",
	}
}

func medium(t *testing.T, n NoCloud) *Medium {
	t.Helper()
	m, err := n.Medium()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// contents reads the image back with a library that shares nothing with what wrote it.
func contents(t *testing.T, m *Medium) map[string]string {
	t.Helper()
	image, err := iso9660.OpenImage(m.Reader())
	if err != nil {
		t.Fatal(err)
	}
	if label, err := image.Label(); err != nil || label != volumeLabel {
		t.Errorf("the label is %q, %v", label, err)
	}
	root, err := image.RootDir()
	if err != nil {
		t.Fatal(err)
	}
	children, err := root.GetChildren()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range children {
		content, err := io.ReadAll(f.Reader())
		if err != nil {
			t.Fatal(err)
		}
		if mode := f.Mode(); !mode.IsRegular() || mode.Perm() != 0o400 {
			t.Errorf("%s has mode %v", f.Name(), mode)
		}
		files[f.Name()] = string(content)
	}
	return files
}

func TestMedium_isReadBack(t *testing.T) {
	t.Parallel()
	n := full()
	want := map[string]string{
		"meta-data": "instance-id: " + instance + "\nlocal-hostname: web\n", "user-data": n.UserData,
		"vendor-data": n.VendorData, "network-config": n.NetworkConfig,
	}
	if diff := cmp.Diff(want, contents(t, medium(t, n))); diff != "" {
		t.Error(diff)
	}
	want = map[string]string{"meta-data": "instance-id: a\n", "user-data": ""}
	if diff := cmp.Diff(want, contents(t, medium(t, NoCloud{InstanceID: "a"}))); diff != "" {
		t.Error(diff)
	}
}

// TestMedium_isFoundAsCloudInitFindsIt: by the label that blkid reads, and through the kernel's isofs, with Rock Ridge
// and with Joliet alone.
func TestMedium_isFoundAsCloudInitFindsIt(t *testing.T) {
	t.Parallel()
	n := full()
	m := medium(t, n)
	image := filepath.Join(t.TempDir(), "cidata.iso")
	if err := os.WriteFile(image, m.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, a ...string) (string, bool) {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", false
		}
		out, err := exec.CommandContext(t.Context(), path, a...).CombinedOutput()
		if err != nil {
			t.Logf("%s: %v: %s", name, err, out)
		}
		return string(out), err == nil
	}
	if out, ran := run("blkid", "-p", "-o", "export", image); ran {
		for _, want := range []string{"TYPE=iso9660", "LABEL=cidata"} {
			if !strings.Contains(out, want) {
				t.Errorf("blkid says %s", out)
			}
		}
	}
	if out, ran := run("isoinfo", "-R", "-f", "-i", image); ran && !strings.Contains(out, "/network-config") {
		t.Errorf("isoinfo lists %s", out)
	}
	for _, options := range []string{"ro,loop", "ro,loop,norock"} {
		dir := t.TempDir()
		if _, mounted := run("mount", "-t", "iso9660", "-o", options, image, dir); !mounted {
			continue // It takes root, a loop device and the kernel's isofs.
		}
		for name, want := range map[string]string{
			"user-data": n.UserData, "vendor-data": n.VendorData, "network-config": n.NetworkConfig,
		} {
			if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != want {
				t.Errorf("%s: %s is %q, %v", options, name, content, err)
			}
		}
		run("umount", dir)
	}
}

func TestMedium_equalInputGivesEqualBytes(t *testing.T) {
	t.Parallel()
	first, second := medium(t, full()), medium(t, full())
	if !bytes.Equal(first.Bytes(), second.Bytes()) || first.Digest() != second.Digest() {
		t.Error("equal input gave other bytes")
	}
	changed := full()
	changed.InstanceID = "another"
	if medium(t, changed).Digest() == first.Digest() {
		t.Error("another instance id gave the same digest")
	}
	if first.Size()%sectorBytes != 0 || first.Size() != int64(len(first.Bytes())) {
		t.Errorf("it has %d bytes", first.Size())
	}
}

func TestMetaData_keepsWhatTheUserWrote(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		n    NoCloud
		want string
	}{
		"block": {
			NoCloud{InstanceID: "i", Hostname: "web", MetaData: "# Ours\npublic-keys: [a]"},
			"# Ours\npublic-keys: [a]\ninstance-id: i\nlocal-hostname: web\n",
		},
		"JSON": {
			NoCloud{InstanceID: "i", MetaData: `{"local-hostname": "db"}`}, "\"local-hostname\": \"db\"\ninstance-id: i\n",
		},
		"its own": {NoCloud{MetaData: "instance-id: own\n"}, "instance-id: own\n"},
		"both":    {NoCloud{InstanceID: "own", MetaData: "instance-id: own\n"}, "instance-id: own\n"},
		"comment": {NoCloud{InstanceID: "i", MetaData: "# nothing"}, "# nothing\ninstance-id: i\n"},
		"number":  {NoCloud{InstanceID: "0123"}, "instance-id: \"0123\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, contents(t, medium(t, test.n))["meta-data"]); diff != "" {
				t.Error(diff)
			}
		})
	}
	var p *Problem
	if _, err := (NoCloud{}).Medium(); !errors.As(err, &p) || p.Field != FieldInstanceID {
		t.Errorf("without an instance id: %v", err)
	}
}

func TestNoCloud_isNeverPrinted(t *testing.T) {
	t.Parallel()
	n := full()
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("made", "nocloud", n, "medium", medium(t, n))
	text := fmt.Sprint(n, &n, medium(t, n)) + fmt.Sprintf("%#v %+v %#v", n, n, medium(t, n)) + logged.String()
	if strings.Contains(text, "hunter2") {
		t.Errorf("the password is in %s", text)
	}
}
