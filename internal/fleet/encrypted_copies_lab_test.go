package fleet

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// definePassphrase defines a secret with a passphrase on a host.
func definePassphrase(t *testing.T, l *lab.Lab, host, id, private string) {
	t.Helper()

	file := "/run/" + id + ".xml"
	l.Run(t, host, "sh", "-c", fmt.Sprintf(`echo "<secret ephemeral='no' private='%s'><uuid>%s</uuid>`+
		`<usage type='volume'><volume>%s</volume></usage></secret>" >%s; virsh secret-define %[4]s; rm %[4]s`,
		private, id, id, file))
	l.Virsh(t, host, "secret-set-value", id, base64.StdEncoding.EncodeToString([]byte("correct horse")))
}

// A run is killed when it had made the encrypted images on the target, and before it noted them: they have a header, so
// neither their length nor what they take is that of an empty image. The next run knows them from what was
// recorded, and removes them. An image of the same capacity that something was written to stays. A secret that the
// target lacks blocks the move while it is private, and is brought there otherwise.
func TestLab_encryptedCopiesOfAKilledRun(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	// libvirt doesn't read a pool again while it makes an image there, and an encrypted one takes long on a busy computer:
	// on a shared host, other tests would wait to learn who uses a file.
	from, to := l.StartHost(t).Name, l.StartHost(t).Name
	log := &onLog{Message: "creating image"}
	f := labFleet(t, l, t.Name(), nil)
	listen(f, log)
	dir := directory(t, l, from, to)
	pool := lab.Name(t)
	diskPool(t, l, from, pool, dir)
	diskPool(t, l, to, pool, dir)

	secret := uuid.NewString()
	definePassphrase(t, l, from, secret, "yes")

	d := light(t, l, "vm", nil)
	d.Spec.Name = lab.Name(t) // libvirt makes an id of QEMU's of it, which begins with a letter.
	d.Metadata.Host = from
	d.Spec.Disks, d.OwnDisks = map[string]domain.Disk{}, map[string]domain.OwnDisk{}

	for _, format := range []string{"raw", "qcow2"} {
		d.Spec.Disks[format] = domain.Disk{
			Source: domain.DiskSource{File: "/to/be/made"}, Format: format,
			Values: domain.Values{domain.EncryptionSecret: secret},
		}
		d.OwnDisks[format] = domain.OwnDisk{Pool: pool, Bytes: 16 << 20}
	}

	vm := create(t, f, l, d)
	raw, qcow2 := vm.Metadata.OwnDisks["raw"].Path, vm.Metadata.OwnDisks["qcow2"].Path

	if _, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to, migration.Options{}); err == nil ||
		!strings.Contains(err.Error(), "it is private") {
		t.Fatalf("the move without the secret: %v", err)
	}

	l.Virsh(t, from, "secret-undefine", secret)
	definePassphrase(t, l, from, secret, "no")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var begun domain.Metadata

	log.Do = func() {
		defer cancel()

		definition, err := domain.Parse(l.Virsh(t, from, "dumpxml", "--inactive", vm.UUID))
		if err != nil {
			t.Error(err)

			return
		}

		begun = definition.Metadata()
	}

	if _, _, err := f.Move(ctx, vm.UUID, lastOf(vm), to, migration.Options{}); err == nil {
		t.Fatal("the move was not broken off")
	}

	if len(begun.Copies) != 2 || slices.ContainsFunc(begun.Copies, func(c domain.Copy) bool { return !c.Creating }) {
		t.Fatalf("before the images were made these were recorded: %+v", begun.Copies)
	}

	// As the killed run left it.
	hasOnly(t, l, to, dir)

	if _, err := records.WriteMetadata(t.Context(), vm, begun); err != nil {
		t.Fatal(err)
	}

	for path, format := range map[string]string{raw: "raw", qcow2: "qcow2"} {
		if _, err := f.Host(to).Conn.CreateImage(t.Context(), libvirt.NewImage{
			Path: path, Format: format, CapacityBytes: 16 << 20, Secret: secret,
		}); err != nil {
			t.Fatal(err)
		}
	}

	f.ForgetAll()

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to, migration.Options{})
	if err != nil || now.Host != to || len(now.Metadata.Copies) > 0 || state.Failed {
		t.Fatalf("the next run: %+v, %+v, %v", now, state, err)
	}

	hasOnly(t, l, from, dir)
	hasOnly(t, l, to, dir, raw, qcow2)

	for _, host := range []string{from, to} {
		l.Virsh(t, host, "secret-dumpxml", secret)
	}
}
