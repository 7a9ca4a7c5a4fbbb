package domain

import (
	"strings"
	"testing"
)

// Authentication is set where it is declared, wherever it was before, and left alone where it isn't.
func TestSourceAuth(t *testing.T) {
	t.Parallel()
	const other, secret = "5a1bb6ff-3f0b-4c5e-9d3a-000000000001", "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"
	have := func(inDisk, inSource string) string {
		return `<domain type='kvm'><name>web</name><devices><disk type='network' device='disk'>` + inDisk +
			`<source protocol='rbd' name='vms/web'>` + inSource + `<host name='a' port='6789'/></source>` +
			`<target dev='vda' bus='virtio'/><alias name='ua-disk-root'/></disk></devices></domain>`
	}
	old := `<auth username='old'><secret type='ceph' uuid='` + other + `'/></auth>`
	want := &SourceAuth{Username: "libvirt", Secret: secret}
	for name, test := range map[string]struct {
		xml     string
		want    *SourceAuth
		has     string
		changes bool
	}{
		"none before":     {have("", ""), want, secret, true},
		"another":         {have("", old), want, secret, true},
		"next to":         {have(old, ""), want, secret, true},
		"the same":        {have("", old), &SourceAuth{Username: "old", Secret: other}, other, false},
		"not declared":    {have("", old), nil, other, false},
		"none, as before": {have("", ""), nil, "", false},
	} {
		d, err := Parse(test.xml)
		if err != nil {
			t.Fatal(err)
		}
		source := DiskSource{Network: &NetworkSource{
			Protocol: "rbd", Name: "vms/web", Hosts: []string{"a:6789"}, Auth: test.want,
		}}
		spec := Spec{Disks: map[string]Disk{"root": {Source: source}}}
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
		auth := d.Spec().Disks["root"].Source.Network.Auth
		if (auth == nil) != (test.has == "") || auth != nil && auth.Secret != test.has ||
			strings.Count(xml, "<auth") != strings.Count(xml, "type=\"ceph\"") || strings.Count(xml, "<auth") > 1 {
			t.Errorf("%s: %s", name, xml)
		}
	}
}

// What a user changes by hand in how QEMU authenticates, in the definition alone or also in the running VM, is read. It
// differs from what is declared.
func TestSourceAuth_editedByHand(t *testing.T) {
	t.Parallel()
	const secret, other = "5a1bb6ff-3f0b-4c5e-9d3a-000000000001", "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"
	read := func(username, secret string) *Spec {
		t.Helper()
		d, err := Parse(`<domain type='kvm'><name>web</name><devices><disk type='network' device='disk'>
			<auth username='` + username + `'><secret type='ceph' ` + secret + `/></auth>
			<source protocol='rbd' name='vms/web'><host name='a' port='6789'/></source>
			<target dev='vda' bus='virtio'/><alias name='ua-disk-root'/></disk></devices></domain>`)
		if err != nil {
			t.Fatal(err)
		}
		return new(d.Spec())
	}
	was := read("libvirt", "uuid='"+secret+"'")
	for name, now := range map[string]*Spec{
		"username": read("other", "uuid='"+secret+"'"), "secret": read("libvirt", "uuid='"+other+"'"),
		"usage": read("libvirt", "usage='other'"),
	} {
		for where, merged := range map[string]Spec{
			"off": Merge(now, nil, was, nil), "definition": Merge(now, was, was, nil), "both": Merge(now, now, was, nil),
		} {
			auth, want := merged.Disks["root"].Source.Network.Auth, now.Disks["root"].Source.Network.Auth
			if (auth == nil) != (want == nil) || auth != nil && *auth != *want {
				t.Errorf("%s, %s: read as %v; want %v", name, where, auth, want)
			}
			if changed := Changes(merged, *was); len(changed) != 1 || changed[0].Path != "disks.root.network" {
				t.Errorf("%s, %s: the changes are %v", name, where, changed)
			}
		}
	}
}

func TestSourceAuth_validate(t *testing.T) {
	t.Parallel()
	for why, n := range map[string]NetworkSource{
		"":                       {Protocol: "rbd", Auth: &SourceAuth{"libvirt", "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"}},
		"iscsi, rbd":             {Protocol: "nbd", Auth: &SourceAuth{"libvirt", "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"}},
		"It must be declared":    {Protocol: "rbd", Auth: &SourceAuth{"", "5a1bb6ff-3f0b-4c5e-9d3a-000000000002"}},
		"id of a virtfleet_secr": {Protocol: "rbd", Auth: &SourceAuth{"libvirt", "ceph"}},
	} {
		n.Name, n.Hosts = "x", []string{"a:1"}
		c := &checker{}
		n.validate(c, "disks.root.network")
		if said := fmtProblems(c); why == "" && said != "" || !strings.Contains(said, why) {
			t.Errorf("%q, want %q", said, why)
		}
	}
}

func fmtProblems(c *checker) string {
	var all strings.Builder
	for _, p := range c.problems {
		all.WriteString(p.Error() + "\n")
	}
	return all.String()
}
