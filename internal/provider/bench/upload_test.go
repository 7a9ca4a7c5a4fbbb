package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

const (
	// denseImage and sparseImage are the sizes of the images, and sparseData is what the sparse one has.
	denseImage, sparseImage, sparseData = 256 << 20, 2 << 30, 32 << 20
	// uploadPool is where images are uploaded to.
	uploadPool = "/var/lib/libvirt/upload"

	uploadTimeout = 10 * time.Minute
)

// uploading has a storage pool on all hosts and an image on some, if there is one.
const uploading = `terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

variable "hosts" {
  type = map(object({ uri = string, known_hosts = string }))
}

variable "vms" {
  type = number
}

variable "image" {
  type = string
}

variable "on" {
  type = list(string)
}

provider "virtfleet" {
  hosts = { for name, h in var.hosts : name => { uri = h.uri, ssh = { known_hosts_file = h.known_hosts } } }
  ssh   = { private_key_file = %q, config_file = "none", agent = false }
}

resource "virtfleet_storage_pool" "upload" {
  name   = "upload"
  type   = "dir"
  target = { path = %q }
}

resource "virtfleet_image" "this" {
  count  = var.image == "" ? 0 : 1
  name   = "image"
  pool   = virtfleet_storage_pool.upload.name
  source = { file = var.image }
  hosts  = var.on
}
`

// BenchmarkUpload sends an image to a host and to three at the same time: as virtfleet_image, with a plan and a
// checksum, and as administrators do, which is only sending. What Terraform takes without an image is left out. The
// SHA-256 of a sparse image is that of its zeros, too, which takes longer than to send the rest of it.
func BenchmarkUpload(b *testing.B) {
	l := lab.Open(b)
	w := newHosts(b, l, 3)
	u := &uploader{
		workspace: w, dense: filepath.Join(w.home, "dense"), sparse: filepath.Join(w.home, "sparse"), ssh: w.sshProgram(b),
	}
	for file, size := range map[string]int64{u.dense: denseImage, u.sparse: sparseImage} {
		if err := makeImage(file, size); err != nil {
			b.Fatal(err)
		}
	}
	w.variables = map[string]string{"image": "", "on": "[]"}
	w.create(b, fmt.Sprintf(uploading, l.PrivateKeyFile(), uploadPool))

	t := &table{
		title: fmt.Sprintf("uploading an image: dense %d MiB, sparse %d MiB of %d MiB; medians of %d rounds", denseImage>>20,
			sparseData>>20, sparseImage>>20, *rounds),
		columns: [2]string{"virtfleet_image", "the other way"},
	}
	u.compare(b, t, "dense", u.dense)
	u.compare(b, t, "sparse", u.sparse)
	if err := t.print(os.Stdout); err != nil {
		b.Fatal(err)
	}
}

// uploader is a workspace whose hosts get images.
type uploader struct {
	*workspace
	dense, sparse string
	// ssh is a program that is ssh with the lab's keys.
	ssh string
}

// sshProgram makes a program that is ssh with the lab's keys.
func (w *workspace) sshProgram(b *testing.B) string {
	b.Helper()
	program := filepath.Join(w.home, "ssh")
	script := fmt.Sprintf("#!/bin/sh\nexec ssh -F none -o IdentitiesOnly=yes -i '%s' -o UserKnownHostsFile='%s' "+
		"\"$@\"\n", w.lab.PrivateKeyFile(), w.lab.KnownHostsFile())
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		b.Fatal(err)
	}
	return program
}

// uri is how virsh reaches a host.
func (u *uploader) uri(h *lab.Host) string { return h.URI() + "?command=" + u.ssh }

// makeImage writes random data, as much as there is in the image, and makes the rest of it a hole.
func makeImage(file string, size int64) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	data := size
	if size == sparseImage {
		data = sparseData
	}
	if _, err := io.CopyN(out, rand.Reader, data); err != nil {
		return err
	}
	return out.Truncate(size)
}

// uploads are the times of all ways to send an image.
type uploads struct{ image, cat, virsh sample }

// compare sends an image to one host and to all of them, in all ways, in turn.
func (u *uploader) compare(b *testing.B, t *table, what, file string) {
	b.Helper()
	var one, all uploads
	for range *rounds {
		u.send(b, file, u.hosts[:1], &one)
		u.send(b, file, u.hosts, &all)
	}
	for i, took := range []*uploads{&one, &all} {
		to := what + [...]string{", to one host: ", ", to all hosts: "}[i]
		t.ratio(to+"ssh host 'cat > file'", &took.image, &took.cat, 1.2)
		t.ratio(to+"virsh vol-upload", &took.image, &took.virsh, 1.2)
	}
	t.ratio(what+", to all hosts: virtfleet_image to one", &all.image, &one.image, 1.3)
}

// send sends an image to hosts in all ways, and adds the times.
func (u *uploader) send(b *testing.B, file string, hosts []*lab.Host, took *uploads) {
	b.Helper()
	took.image.add(u.apply(b, file, hosts))
	took.cat.add(u.onAll(b, hosts, func(ctx context.Context, h *lab.Host) error { return u.cat(ctx, h, file) }))
	took.virsh.add(u.onAll(b, hosts, func(ctx context.Context, h *lab.Host) error { return u.volUpload(ctx, h, file) }))
}

// apply adds the image, and returns how much longer that takes than an apply without a change. It removes the image.
func (u *uploader) apply(b *testing.B, file string, hosts []*lab.Host) time.Duration {
	b.Helper()
	apply := []string{"apply", "-auto-approve"}
	idle := u.run(b, u.direct(), apply)
	list := ""
	for _, h := range hosts {
		list += fmt.Sprintf("%q,", h.Name)
	}
	u.variables["image"], u.variables["on"] = file, "["+list+"]"
	took := u.run(b, u.direct(), apply)
	u.variables["image"], u.variables["on"] = "", "[]"
	u.run(b, u.direct(), apply)
	return took - idle
}

// onAll does something for all hosts at the same time.
func (u *uploader) onAll(b *testing.B, hosts []*lab.Host, do func(context.Context, *lab.Host) error) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), uploadTimeout)
	defer cancel()
	errs := make([]error, len(hosts))
	var all sync.WaitGroup
	start := time.Now()
	for i, h := range hosts {
		all.Go(func() { errs[i] = do(ctx, h) })
	}
	all.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return took
}

func (u *uploader) cat(ctx context.Context, h *lab.Host, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	cmd := exec.CommandContext(ctx, u.ssh, "root@"+h.Address, "cat > "+uploadPool+"/cat && rm "+uploadPool+"/cat")
	cmd.Stdin = in
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ssh: %w: %s", err, out)
	}
	return nil
}

func (u *uploader) volUpload(ctx context.Context, h *lab.Host, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	script := fmt.Sprintf("vol-create-as upload virsh %d --format raw --allocation 0; vol-upload virsh %s --pool upload "+
		"--sparse; vol-delete virsh --pool upload", info.Size(), file)
	cmd := exec.CommandContext(ctx, "virsh", "--quiet", "--connect", u.uri(h), script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("virsh: %w: %s", err, out)
	}
	return nil
}
