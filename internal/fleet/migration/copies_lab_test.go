package migration

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// images is where libvirt's pool "default" is on every host, each its own.
const images = "/var/lib/libvirt/images"

// directory makes a directory on hosts, in no pool, until the test ends.
func directory(t *testing.T, hosts ...*lab.Host) string {
	t.Helper()
	dir := path.Join("/var/lib/libvirt", lab.Name(t))
	for _, h := range hosts {
		if err := os.Mkdir(h.Path(dir), 0o711); err != nil { //nolint:gosec // As libvirt's own.
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(h.Path(dir)); err != nil {
				t.Error(err)
			}
		})
	}
	return dir
}

// image makes one on a host, and removes what is there under its path on all of them when the test ends.
func image(t *testing.T, l *lab.Lab, on *lab.Host, file, format string, args ...string) string {
	t.Helper()
	t.Cleanup(func() {
		for _, h := range l.Hosts {
			if err := os.Remove(h.Path(file)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	l.Run(t, on.Name, "qemu-img", append([]string{"create", "-q", "-f", format, file}, args...)...)
	if path.Dir(file) == images {
		l.RefreshPool(t, on.Name)
	}
	return file
}

// onFiles starts a guest with an agent and these disks, named vda, vdb, ...
func onFiles(t *testing.T, l *lab.Lab, source, target *lab.Host, words, format string, files ...string) *bench {
	t.Helper()
	var devices strings.Builder
	for i, file := range files {
		fmt.Fprintf(&devices, `<disk type='file' device='disk'><driver name='qemu' type='%s' cache='none'/>
      <source file='%s'/><target dev='vd%c' bus='virtio'/><alias name='ua-disk-d%d'/></disk>`, format,
			strings.ReplaceAll(file, "&", "&amp;"), 'a'+i, i)
	}
	devices.WriteString(`<disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>`)
	return newBenchWith(t, l, source, target, lab.Name(t), words, devices.String())
}

// inGuest runs a script in the guest, wherever it is, and returns what it said.
func (b *bench) inGuest(t *testing.T, at *libvirt.Host, script string) string {
	t.Helper()
	ask := func(answer any, execute string, arguments map[string]any) error {
		question, err := json.Marshal(map[string]any{"execute": execute, "arguments": arguments})
		if err != nil {
			return err
		}
		text, err := at.AgentCommand(t.Context(), b.machine.UUID, string(question))
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), answer)
	}
	// An answer may come too late to be heard. Asked again, the guest tells of what it does already.
	once := fmt.Sprintf("d=/run/%s; if mkdir $d 2>/dev/null; then (%s) >$d/out; echo $? >$d/end; mv $d/end $d/ended; fi\n"+
		"until [ -e $d/ended ]; do sleep 0.1; done; cat $d/out; exit $(cat $d/ended)", rand.Text(), script)
	var err error
	var out []byte
	lab.Await(t, "the guest", func() bool {
		out, err = execute(ask, once)
		return !errors.Is(err, libvirt.ErrAgentUnavailable)
	})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(out))
}

// execute runs a script through a guest agent. One that takes long is ErrAgentUnavailable, as is an agent that does.
func execute(ask func(answer any, command string, arguments map[string]any) error, script string) ([]byte, error) {
	var started struct{ Return struct{ PID int } }
	if err := ask(&started, "guest-exec", map[string]any{
		"path": "/bin/sh", "arg": []string{"-c", script}, "capture-output": true,
	}); err != nil {
		return nil, err
	}
	var status struct {
		Return struct {
			Exited   bool
			ExitCode int
			Out      string `json:"out-data"`
			Err      string `json:"err-data"`
		}
	}
	for looks := 0; !status.Return.Exited; looks++ {
		if looks > 100 {
			return nil, libvirt.ErrAgentUnavailable
		}
		if err := ask(&status, "guest-exec-status", map[string]any{"pid": started.Return.PID}); err != nil {
			return nil, err
		}
		<-time.After(100 * time.Millisecond)
	}
	out, err := base64.StdEncoding.DecodeString(status.Return.Out)
	if status.Return.ExitCode != 0 {
		err = fmt.Errorf("exit %d: %s", status.Return.ExitCode, status.Return.Err)
	}
	return out, err
}

// scribble has the guest write to a disk, and returns its checksum.
func (b *bench) scribble(t *testing.T, at *libvirt.Host, disk string) string {
	t.Helper()
	return b.inGuest(t, at, "dd if=/dev/urandom of="+disk+" bs=64k seek=17 count=40 conv=fsync 2>/dev/null && "+sum(disk))
}

// sum reads a disk, not what the guest remembers of it.
func sum(disk string) string {
	return "sync; echo 3 >/proc/sys/vm/drop_caches; busybox md5sum <" + disk
}

// has says whether a host has a file.
func has(t *testing.T, h *lab.Host, file string) bool {
	t.Helper()
	_, err := os.Stat(h.Path(file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// noPools fails the test when a pool of a directory is left. Those of others come and go meanwhile.
func noPools(t *testing.T, l *lab.Lab, dir string, hosts ...*lab.Host) {
	t.Helper()
	for _, h := range hosts {
		for pool := range strings.FieldsSeq(l.Virsh(t, h.Name, "pool-list", "--all", "--name")) {
			if described, err := l.TryVirsh(t, h.Name, "pool-dumpxml", pool); err == nil && strings.Contains(described, dir) {
				t.Errorf("left on %s: %s", h.Name, described)
			}
		}
	}
}

// A VM goes there and back with its disks, through a pool and through a directory that is none, directly and
// through the relay, and its guest reads what it wrote.
func TestLab_disksAreCopied(t *testing.T) {
	t.Parallel()
	for transport, format := range map[string]string{TransportDirect: "qcow2", TransportSSHRelay: "raw"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			l := lab.Open(t)
			here, there := l.Host("kvm1"), l.Host("kvm3")
			dir := directory(t, here, there)
			files := []string{
				image(t, l, here, path.Join(images, path.Base(dir)+"-a"), format, "32M"),
				image(t, l, here, path.Join(dir, "b & b"), format, "16M"),
			}
			b := onFiles(t, l, here, there, "", format, files...)
			b.tunnels = b.overSSH
			o := Options{Transport: transport, CopyStorage: CopyFull, KeepSourceDisks: new(false)}
			for range 2 {
				written := b.scribble(t, b.source, "/dev/vda") + b.scribble(t, b.source, "/dev/vdb")
				blockers, err := CheckHosts(t.Context(), b.machine, b.source, b.target, o)
				if err != nil || len(Blocking(blockers)) > 0 {
					t.Fatalf("preflight: %+v, %v", blockers, err)
				}
				var told libvirt.Transfer
				state, err := b.run(t.Context(), t, o, func(s State) { told = s.Statistics.Disk })
				if err != nil {
					t.Fatal(err)
				}
				if state.Method != MethodBlock || state.Transport != transport || state.Statistics.Disk.Total == 0 ||
					state.Statistics.Disk.Remaining != 0 || told.Total == 0 {
					t.Errorf("state %+v, told %+v", state, told)
				}
				b.runsOnlyOn(t, b.target, b.source)
				if read := b.inGuest(t, b.target, sum("/dev/vda")) + b.inGuest(t, b.target, sum("/dev/vdb")); read != written {
					t.Errorf("wrote %s, read %s", written, read)
				}
				for _, file := range files {
					if has(t, l.Host(b.source.Name()), file) {
						t.Errorf("%s is left on %s", file, b.source.Name())
					}
				}
				noPools(t, l, dir, here, there)
				b.noSockets(t)
				b.source, b.target = b.target, b.source
				if b.machine, err = Inspect(t.Context(), b.source, b.machine.UUID, true); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// What a backing chain holds becomes one image, of which more is copied than could be seen before; a target that is
// full ends the migration, with nothing left there. The source keeps its images, which nothing overwrites later.
func TestLab_diskOntoAFullTarget(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, there := l.Host("kvm1"), l.Host("kvm2")
	dir := directory(t, here, there)
	base := image(t, l, here, path.Join(dir, "base.raw"), "raw", "16M")
	l.Run(t, here.Name, "dd", "if=/dev/urandom", "of="+base, "bs=1M", "count=16", "conv=notrunc")
	file := image(t, l, here, path.Join(dir, "top.qcow2"), "qcow2", "-b", base, "-F", "raw")
	l.Run(t, there.Name, "mount", "-t", "tmpfs", "-o", "size=6M", "tmpfs", dir)
	mounted := true
	unmount := func() {
		if mounted {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			if _, err := there.Run(ctx, "umount", dir); err != nil {
				t.Error(err)
			}
		}
		mounted = false
	}
	t.Cleanup(unmount)
	b := onFiles(t, l, here, there, "", "qcow2", file)
	written := b.inGuest(t, b.source, sum("/dev/vda"))
	o := Options{CopyStorage: CopyFull}

	state, err := b.run(t.Context(), t, o, nil)
	if _, ok := errors.AsType[*FailedError](err); !ok || !state.Failed {
		t.Fatalf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)
	left := strings.TrimSpace(l.Run(t, there.Name, "ls", "-A", dir))
	if left != "" {
		t.Errorf("left on the target: %s", left)
	}
	noPools(t, l, dir, here, there)
	if b.inGuest(t, b.source, sum("/dev/vda")) != written {
		t.Error("the guest reads something else")
	}

	unmount()
	// A snapshot lists the backing images in both definitions. The target must open none of them, now and later.
	file = path.Join(dir, "snapshot.qcow2")
	l.Virsh(t, here.Name, "snapshot-create-as", b.machine.Name, "s", "--disk-only", "--no-metadata", "--diskspec",
		"vda,file="+file)
	written = b.scribble(t, b.source, "/dev/vda")
	if b.machine, err = Inspect(t.Context(), b.source, b.machine.UUID, true); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(t.Context(), t, o, nil); err != nil {
		t.Fatal(err)
	}
	b.runsOnlyOn(t, b.target, b.source)
	if b.inGuest(t, b.target, sum("/dev/vda")) != written {
		t.Error("the guest reads something else")
	}
	kept := l.Virsh(t, there.Name, "dumpxml", "--inactive", b.machine.Name)
	if strings.Contains(kept, "top.qcow2") || !strings.Contains(kept, "snapshot.qcow2") {
		t.Errorf("the target keeps the definition %s", kept)
	}
	if info := l.Run(t, there.Name, "qemu-img", "info", "-U", file); strings.Contains(info, "backing") {
		t.Errorf("copied as %s", info)
	}
	if !has(t, here, file) || !has(t, here, base) || has(t, there, base) {
		t.Error("the source's images are to be kept, and the backing file is not to be copied")
	}
	b.source, b.target = b.target, b.source
	state, err = b.run(t.Context(), t, o, nil)
	taken(t, state, err, file)
	b.runsOnlyOn(t, b.source, b.target)
}

// Of a disk that is based on an image which both hosts have, what it has besides is copied, there and back, and nothing
// as long as the target has no such image.
func TestLab_topmostImageIsCopied(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, there := l.Host("kvm1"), l.Host("kvm3")
	dir := directory(t, here, there)
	base := image(t, l, here, path.Join(images, path.Base(dir)+"-base"), "raw", "16M")
	l.Run(t, here.Name, "dd", "if=/dev/urandom", "of="+base, "bs=1M", "count=16", "conv=notrunc")
	content := readFile(t, here, base)
	file := image(t, l, here, path.Join(dir, "top & more"), "qcow2", "-b", base, "-F", "raw", "24M")
	b := onFiles(t, l, here, there, "", "qcow2", file)
	b.tunnels = b.overSSH
	written := b.scribble(t, b.source, "/dev/vda")
	o := Options{CopyStorage: CopyIncremental}

	another := bytes.Clone(content)
	another[0]++
	for i, exists := range [][]byte{nil, content[:8<<20], another} {
		if exists != nil {
			writeFile(t, there, base, exists)
			l.RefreshPool(t, there.Name)
		}
		// A plan doesn't look into files.
		seen := i < 2
		blockers, err := CheckHosts(t.Context(), b.machine, b.source, b.target, o)
		if err != nil || isBased(Blocking(blockers), base) != seen {
			t.Errorf("preflight %d: %+v, %v", i, blockers, err)
		}
		state, err := b.run(t.Context(), t, o, nil)
		blocked, ok := errors.AsType[*BlockedError](err)
		if !ok || !isBased(blocked.Blockers, base) || state.FailurePlane != PlaneControl {
			t.Errorf("%d: state %+v: %v", i, state, err)
		}
		if has(t, there, file) || exists != nil && !bytes.Equal(readFile(t, there, base), exists) {
			t.Errorf("%d: something was written on the target", i)
		}
	}

	writeFile(t, there, base, content)
	l.RefreshPool(t, there.Name)
	for i, transport := range []string{TransportDirect, TransportSSHRelay} {
		keep := i > 0
		o.Transport, o.KeepSourceDisks = transport, new(keep)
		blockers, err := CheckHosts(t.Context(), b.machine, b.source, b.target, o)
		if err != nil || len(Blocking(blockers)) > 0 {
			t.Fatalf("preflight: %+v, %v", blockers, err)
		}
		state, err := b.run(t.Context(), t, o, nil)
		if total := state.Statistics.Disk.Total; err != nil || state.Method != MethodBlock || total == 0 || total > 8<<20 {
			t.Fatalf("state %+v: %v", state, err)
		}
		b.runsOnlyOn(t, b.target, b.source)
		if read := b.inGuest(t, b.target, sum("/dev/vda")); read != written {
			t.Errorf("wrote %s, read %s", written, read)
		}
		on := l.Run(t, b.target.Name(), "qemu-img", "info", "-U", file)
		if !strings.Contains(on, "backing file: "+base) {
			t.Errorf("copied as %s", on)
		}
		if has(t, l.Host(b.source.Name()), file) != keep {
			t.Errorf("kept at the source: %v, want %v", !keep, keep)
		}
		for _, h := range []*lab.Host{here, there} {
			if !bytes.Equal(readFile(t, h, base), content) {
				t.Errorf("the base on %s was changed", h.Name)
			}
		}
		b.source, b.target = b.target, b.source
		if b.machine, err = Inspect(t.Context(), b.source, b.machine.UUID, true); err != nil {
			t.Fatal(err)
		}
	}
	noPools(t, l, dir, here, there)
}

// isBased says that the blocker is a disk that is based on a file.
func isBased(blockers []Blocker, base string) bool {
	return len(blockers) == 1 && blockers[0].Reason == DisksNotLiveMigratable && blockers[0].Attribute == "disks.d0" &&
		strings.Contains(blockers[0].Message, base)
}

// readFile reads a host's file.
func readFile(t *testing.T, h *lab.Host, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(h.Path(file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// writeFile writes one that QEMU may read.
func writeFile(t *testing.T, h *lab.Host, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(h.Path(file), data, 0o644); err != nil { //nolint:gosec // As libvirt's own.
		t.Fatal(err)
	}
}

// taken expects that a migration was refused because of a file.
func taken(t *testing.T, state State, err error, file string) {
	t.Helper()
	blocked, ok := errors.AsType[*BlockedError](err)
	if !ok || len(blocked.Blockers) != 1 || blocked.Blockers[0].Reason != DiskPathTaken ||
		!strings.Contains(blocked.Error(), file) || state.FailurePlane != PlaneControl {
		t.Errorf("state %+v: %v", state, err)
	}
}

// A file that is on the target is seen before if a pool knows it, else before anything is copied, and stays as it is.
func TestLab_existingFileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, there := l.Host("kvm1"), l.Host("kvm2")
	name := lab.Name(t)
	known := image(t, l, here, path.Join(images, name+"-known"), "qcow2", "16M")
	unknown := image(t, l, here, path.Join(directory(t, here, there), "unknown"), "qcow2", "16M")
	image(t, l, there, known, "qcow2", "16M")
	if err := os.WriteFile(there.Path(unknown), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := onFiles(t, l, here, there, "", "qcow2", known, unknown)
	o := Options{CopyStorage: CopyFull}

	blockers, err := CheckHosts(t.Context(), b.machine, b.source, b.target, o)
	if err != nil {
		t.Fatal(err)
	}
	found := Blocking(blockers)
	if len(found) != 1 || found[0].Reason != DiskPathTaken || found[0].Attribute != "disks.d0" {
		t.Errorf("blockers %+v", blockers)
	}
	state, err := b.run(t.Context(), t, o, nil)
	taken(t, state, err, known)

	if err := os.Remove(there.Path(known)); err != nil {
		t.Fatal(err)
	}
	l.RefreshPool(t, there.Name)
	state, err = b.run(t.Context(), t, o, nil)
	taken(t, state, err, unknown)
	if data, err := os.ReadFile(there.Path(unknown)); string(data) != "precious" || has(t, there, known) {
		t.Errorf("the file has %q (%v), the other disk's image was left: %v", data, err, has(t, there, known))
	}
	b.runsOnlyOn(t, b.source, b.target)
}

// A migration that is aborted while it copies disks leaves nothing on the target.
func TestLab_copyIsAborted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, there := l.Host("kvm1"), l.Host("kvm2")
	file := image(t, l, here, path.Join(images, lab.Name(t)), "raw", "32M")
	l.Run(t, here.Name, "dd", "if=/dev/urandom", "of="+file, "bs=1M", "count=32", "conv=notrunc")
	b := onFiles(t, l, here, there, "", "raw", file)
	for _, transport := range []string{TransportDirect, TransportSSHRelay} {
		b.tunnels = b.overSSH
		ctx, cancel := context.WithCancel(t.Context())
		state, err := b.run(ctx, t, Options{
			Transport: transport, CopyStorage: CopyFull, Bandwidth: new(uint64(slow)),
		}, func(s State) {
			if s.Statistics.Disk.Total > 0 {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) || state.AbortStatus != AbortSucceeded {
			t.Errorf("state %+v: %v", state, err)
		}
		b.runsOnlyOn(t, b.source, b.target)
		if has(t, there, file) {
			t.Error("the image is left on the target")
		}
		b.noSockets(t)
	}
}

// Disks are encrypted as memory is, and are there before the guest continues on the target ahead of its memory.
func TestLab_disksAreCopiedBeforePostCopyUnderTLS(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, there := l.StartHost(t), l.StartHost(t)
	a := lab.NewAuthority(t)
	for _, h := range []*lab.Host{here, there} {
		a.Equip(t, l, h, h.Address)
	}
	file := image(t, l, here, path.Join(images, lab.Name(t)), "qcow2", "16M")
	b := onFiles(t, l, here, there, "dirty=16", "qcow2", file)
	written := b.scribble(t, b.source, "/dev/vda")
	state, err := b.run(t.Context(), t, Options{
		Transport: TransportTLS, CopyStorage: CopyFull, AllowPostCopy: new(true), Bandwidth: new(uint64(slow)),
		CompletionTimeoutPerGiB: new(3 * time.Second),
	}, nil)
	if err != nil || state.Mode != PostCopy || state.Method != MethodBlock {
		t.Fatalf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
	if b.inGuest(t, b.target, sum("/dev/vda")) != written {
		t.Error("the guest reads something else")
	}
}
