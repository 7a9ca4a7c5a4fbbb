package domain

import (
	"strings"
	"testing"
)

const (
	luksSecret  = "5a1bb6ff-3f0b-4c5e-9d3a-000000000001"
	otherSecret = "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"
)

func luks(secret string) string {
	return `<encryption format="luks"><secret type="passphrase" uuid="` + secret + `"/></encryption>`
}

// Encryption is set where it is declared, wherever it was before, and left alone where it isn't declared or is of a
// kind that isn't modelled.
func TestEncryption(t *testing.T) {
	t.Parallel()
	const (
		byUsage = `<encryption format="luks"><secret type="passphrase" usage="/a"/></encryption>`
		ceph    = `<encryption format="luks" engine="librbd"><secret type="passphrase" uuid="` + luksSecret +
			`"/></encryption>`
		two = `<encryption format="luks2" engine="librbd"><secret type="passphrase" uuid="` + luksSecret +
			`"/></encryption>`
		engine = `<encryption format="luks" engine="qemu"><secret type="passphrase" uuid="` + otherSecret + `"/></encryption>`
	)
	declared := func(secret string) Values { return Values{EncryptionSecret: secret} }
	for name, test := range map[string]struct {
		inDisk, inSource string
		want             Values
		reads, has       string
		changes          bool
	}{
		"none before": {"", "", declared(luksSecret), "", luks(luksSecret), true},
		"the same":    {"", luks(luksSecret), declared(luksSecret), luksSecret, luks(luksSecret), false},
		"in capitals": {
			"", luks(luksSecret), declared(strings.ToUpper(luksSecret)), luksSecret, luks(luksSecret), false,
		},
		"another":            {"", luks(otherSecret), declared(luksSecret), otherSecret, luks(luksSecret), true},
		"next to the source": {luks(otherSecret), "", declared(luksSecret), otherSecret, luks(luksSecret), true},
		"as libvirt writes it": {
			"", engine, declared(luksSecret), otherSecret, strings.Replace(engine, otherSecret, luksSecret, 1), true,
		},
		"removed":                {"", luks(luksSecret), declared(""), luksSecret, "", true},
		"not declared":           {"", luks(luksSecret), nil, luksSecret, luks(luksSecret), false},
		"another kind":           {"", ceph, nil, "", ceph, false},
		"another kind by usage":  {"", byUsage, nil, "", byUsage, false},
		"another kind, and none": {"", two, declared(""), "", two, false},
		"another kind replaced":  {"", byUsage, declared(luksSecret), "", luks(luksSecret), true},
	} {
		d, err := Parse(`<domain type="kvm"><name>web</name><devices><disk type="file" device="disk">` + test.inDisk +
			`<source file="/a">` + test.inSource + `</source><target dev="vda" bus="virtio"/><alias name="ua-disk-root"/>` +
			`</disk></devices></domain>`)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Spec().Disks["root"].Values[EncryptionSecret]; got != test.reads {
			t.Errorf("%s: read as %q, want %q", name, got, test.reads)
		}
		spec := Spec{Disks: map[string]Disk{"root": {Source: DiskSource{File: "/a"}, Values: test.want}}}
		if changed := len(Changes(d.Spec(), spec)) > 0; changed != test.changes {
			t.Errorf("%s: changes: %v", name, changed)
		}
		if err := d.Apply(spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		xml, err := d.XML()
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if test.has == "" {
			want = 0
		}
		if !strings.Contains(xml, test.has) || strings.Count(xml, "<encryption") != want {
			t.Errorf("%s: %s", name, xml)
		}
	}
}

// A source of another kind has the encryption that is declared.
func TestEncryption_ofAnotherSource(t *testing.T) {
	t.Parallel()
	d, err := Parse(`<domain type="kvm"><name>web</name><devices><disk type="file" device="disk"><source file="/a">` +
		luks(luksSecret) + `</source><target dev="vda" bus="virtio"/><alias name="ua-disk-root"/></disk></devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	disk := Disk{Source: DiskSource{Block: "/dev/b"}, Values: Values{EncryptionSecret: luksSecret}}
	if err := d.Apply(Spec{Disks: map[string]Disk{"root": disk}}); err != nil {
		t.Fatal(err)
	}
	if xml, err := d.XML(); err != nil || !strings.Contains(xml, `<source dev="/dev/b">`+luks(luksSecret)+`</source>`) {
		t.Errorf("%v: %s", err, xml)
	}
}

// A drive is left alone, and what LUKS can't be combined with is refused.
func TestEncryption_validate(t *testing.T) {
	t.Parallel()
	for why, disk := range map[string]Disk{
		"":                     {Format: "qcow2"},
		"removable media":      {Device: "cdrom"},
		"or a lun":             {Device: "lun"},
		"raw and qcow2":        {Format: "vmdk"},
		"id of a virtfleet_se": {Values: Values{EncryptionSecret: "luks"}},
	} {
		disk.Source.Block = "/dev/a"
		if disk.Values == nil {
			disk.Values = Values{EncryptionSecret: luksSecret}
		}
		c := &checker{}
		disk.validate(c, "root")
		if said := fmtProblems(c); why == "" && said != "" || !strings.Contains(said, why) {
			t.Errorf("%q, want %q", said, why)
		}
	}
}
