package domain

import (
	"strings"
	"testing"
)

// Rows of a network source are set where they are declared and left alone where they aren't. A source on another
// protocol has nothing of the one before.
func TestNetworkRows(t *testing.T) {
	t.Parallel()
	const (
		nbd    = `<source protocol="nbd" name="x" tls="yes"><host name="h" port="1"/></source>`
		plain  = `<source protocol="nbd" name="x"><host name="h" port="1"/></source>`
		web    = `<source protocol="https" name="i.iso" query="a=b"><host name="h" port="1"/><ssl verify="no"/></source>`
		cookie = `<source protocol="https" name="i.iso"><host name="h" port="1"/><cookies><cookie name="a">b</cookie>` +
			`</cookies><auth username="u"><secret type="iscsi" uuid="` + luksSecret + `"/></auth></source>`
		iso = `<source protocol="https" name="i.iso"><host name="h" port="1"/></source>`
	)
	for name, test := range map[string]struct {
		source, protocol string
		want             Values
		has              string
		changes          bool
	}{
		"none before":       {plain, "nbd", Values{"tls": "yes"}, nbd, true},
		"the same":          {nbd, "nbd", Values{"tls": "yes"}, nbd, false},
		"not declared":      {nbd, "nbd", nil, nbd, false},
		"switched off":      {nbd, "nbd", Values{"tls": "no"}, strings.Replace(nbd, "yes", "no", 1), true},
		"from nbd to https": {nbd, "https", nil, iso, true},
		"from web to web":   {web, "https", Values{"query": "c=d"}, strings.Replace(web, "a=b", "c=d", 1), true},
		"https to nbd":      {cookie, "nbd", Values{"tls": "yes"}, nbd, true},
		"cookies stay":      {cookie, "https", nil, cookie, false},
	} {
		d, err := Parse(`<domain type="kvm"><name>web</name><devices><disk type="network" device="cdrom">` + test.source +
			`<target dev="sda" bus="sata"/><readonly/><alias name="ua-disk-iso"/></disk></devices></domain>`)
		if err != nil {
			t.Fatal(err)
		}
		file := map[string]string{"nbd": "x", "https": "i.iso"}[test.protocol]
		spec := Spec{Disks: map[string]Disk{"iso": {Source: DiskSource{Network: &NetworkSource{
			Protocol: test.protocol, Name: file, Hosts: []string{"h:1"}, Values: test.want,
		}}}}}
		if changed := len(Changes(d.Spec(), spec)) > 0; changed != test.changes {
			t.Errorf("%s: changes: %v", name, changed)
		}
		if err := d.Apply(spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left := Changes(d.Spec(), spec); len(left) > 0 {
			t.Errorf("%s: still changes: %v", name, left)
		}
		xml, err := d.XML()
		if err != nil {
			t.Fatal(err)
		}
		_, source, _ := strings.Cut(xml, "<source ")
		source, _, _ = strings.Cut(source, "</source>")
		if got := "<source " + source + "</source>"; !sameElement(t, got, test.has) {
			t.Errorf("%s: %s; want %s", name, got, test.has)
		}
	}
}

// sameElement says that two elements have the same attributes and children, in any order.
func sameElement(t *testing.T, a, b string) bool {
	t.Helper()
	same := len(a) == len(b)
	for _, word := range strings.FieldsFunc(b, func(r rune) bool { return strings.ContainsRune(" <>/", r) }) {
		same = same && strings.Contains(a, word)
	}
	return same
}

func TestNetworkRows_validate(t *testing.T) {
	t.Parallel()
	for why, disk := range map[string]Disk{
		"": {Device: "cdrom", Source: DiskSource{Network: &NetworkSource{
			Protocol: "https", Values: Values{"ssl_verify": "no", "query": "a", "timeout": "5", "readahead": "4096"},
		}}},
		"network.tls: Only nbd has it": {
			Device: "cdrom", Source: DiskSource{Network: &NetworkSource{Protocol: "https", Values: Values{"tls": "yes"}}},
		},
		"network.ssl_verify: Only https, ftps": {
			Source: DiskSource{Network: &NetworkSource{Protocol: "nbd", Values: Values{"ssl_verify": "no"}}},
		},
		"It requires tls": {Source: DiskSource{Network: &NetworkSource{
			Protocol: "nbd", Values: Values{"tls": "no", "tls_hostname": "nbd.example.net"},
		}}},
		"read_only: A disk from a web": {Source: DiskSource{Network: &NetworkSource{Protocol: "http"}}},
	} {
		disk.Source.Network.Name, disk.Source.Network.Hosts = "x", []string{"h:1"}
		c := &checker{}
		disk.validate(c, "iso")
		if said := fmtProblems(c); why == "" && said != "" || !strings.Contains(said, why) {
			t.Errorf("%q, want %q", said, why)
		}
	}
}
