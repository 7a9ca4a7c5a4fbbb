package domain

import (
	"maps"
	"strings"
	"testing"
)

const withShmem = `<domain><name>web</name><metadata><virtfleet:vm xmlns:virtfleet="urn:virtfleet:1" version="1">
<virtfleet:extra-devices><virtfleet:device key="a"
  xml="&lt;shmem name=&quot;a&quot;&gt;&lt;size unit=&quot;M&quot;&gt;4&lt;/size&gt;&lt;/shmem&gt;"/>
</virtfleet:extra-devices></virtfleet:vm></metadata><devices>
<shmem name="a" role="peer"><model type="ivshmem-plain"/><size unit="M">4</size><alias name="ua-extra-a"/>
  <address type="pci" slot="0x07"/></shmem>
<shmem name="foreign"/>
</devices></domain>`

// What libvirt added doesn't count, what is missing does, and what others put there is left alone.
func TestExtraDevices_areReadByWhatWasDeclared(t *testing.T) {
	t.Parallel()
	const declared = `<shmem name="a"><size unit="M">4</size></shmem>`
	for name, test := range map[string]struct{ from, to, want string }{
		"as declared":     {"", "", declared},
		"another size":    {`<size unit="M">4</size>`, `<size unit="M">8</size>`, `<size unit="M">8</size>`},
		"without a child": {`<size unit="M">4</size>`, ``, `<model type="ivshmem-plain"/></shmem>`},
		"another name":    {`name="a" role`, `name="b" role`, `name="b"`},
		"no record":       {`key="a"`, `key="b"`, `role="peer"`},
	} {
		d := parse(t, strings.Replace(withShmem, test.from, test.to, 1))
		got := d.Spec().ExtraDevices
		if len(got) != 1 || !strings.Contains(got["a"], test.want) || (got["a"] == declared) != (test.want == declared) ||
			strings.Contains(got["a"], "alias") || strings.Contains(got["a"], "address") {
			t.Errorf("%s: %q", name, got)
		}
		before := d.Canonical()
		if err := d.Apply(Spec{ExtraDevices: got}); err != nil || d.Canonical() != before {
			t.Errorf("%s: what was read changes the definition: %v", name, err)
		}
		if err := d.Apply(Spec{ExtraDevices: map[string]string{"a": declared, "new": "<hub type='usb'/>"}}); err != nil {
			t.Error(err)
		}
		all := map[string]string{"a": declared, "new": NormalDeviceXML("<hub type='usb'/>")}
		if err := d.SetMetadata(Metadata{ExtraDevices: all}); err != nil {
			t.Error(err)
		}
		want := map[string]string{"a": declared, "new": `<hub type="usb"/>`}
		if got := d.Spec().ExtraDevices; !maps.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if err := d.Apply(Spec{ExtraDevices: map[string]string{}}); err != nil || len(d.Spec().ExtraDevices) > 0 ||
			!strings.Contains(d.Canonical(), "foreign") {
			t.Errorf("%s: %v, left is\n%s", name, err, d.Canonical())
		}
	}
}

// What libvirt writes in its own way is what was declared.
func TestExtraDevices_areReadByMeaning(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		have, want string
		same       bool
	}{
		{`<a><size unit="M">4</size></a>`, `<a><size unit="KiB">4096</size></a>`, true},
		{`<a><size unit="M">4</size></a>`, `<a><size unit="KiB">4</size></a>`, false},
		{`<a><size unit="M">4</size></a>`, `<a><size>4</size></a>`, true},
		{`<a><size unit="M">4</size></a>`, `<a><size>4194304</size></a>`, true},
		{`<a><size unit="M">4</size></a>`, `<a><size>4096</size></a>`, true},
		{`<a><size unit="M">4</size></a>`, `<a><size>8</size></a>`, false},
		{`<a slot="0x1a"/>`, `<a slot="26"/>`, true},
		{`<a slot="0x1a"/>`, `<a slot="0x1A"/>`, true},
		{`<a slot="0x1a"/>`, `<a slot="1a"/>`, false},
		{`<a><b x="1"/><b/></a>`, `<a><b/><b x="1"/></a>`, true},
		{`<a><b x="1"/></a>`, `<a><b/><b x="1"/></a>`, false},
		{`<a><b>c</b></a>`, `<a><b> c </b></a>`, true},
		{`<a><b>c</b></a>`, `<a><b>d</b></a>`, false},
		{`<a/>`, `<a x=""/>`, false},
	} {
		have, errHave := parseDevice(test.have)
		want, errWant := parseDevice(test.want)
		if errHave != nil || errWant != nil || hasAll(have, want) != test.same {
			t.Errorf("%s has all of %s: %v %v, want %v", test.have, test.want, errHave, errWant, test.same)
		}
	}
}

func TestExtraDevices_refused(t *testing.T) {
	t.Parallel()
	for xml, want := range map[string]string{
		"":                                   "one element",
		"shmem":                              "one element",
		"<shmem>":                            "one element",
		"<hub type='usb'/><hub type='usb'/>": "are 2 elements",
		"<hub type='usb'><alias name='ua-disk-root'/></hub>": "derived from the key",
		"<q:hub xmlns:q='urn:q' type='usb'/>":                "another namespace",
		"<hub xmlns='urn:q' type='usb'/>":                    "another namespace",
		"<devices><hub type='usb'/></devices>":               "no alias",
		"<emulator>/bin/sh</emulator>":                       "no alias",
		"<disk type='file'/>":                                "Declare it with disks",
		"<interface type='user'/>":                           "interfaces",
		"<watchdog model='i6300esb'/>":                       "devices.watchdog",
		"<tpm model='tpm-crb'/>":                             "devices.tpm",
		"<input type='tablet' bus='usb'/>":                   "devices.inputs",
		"<memballoon model='none'/>":                         "memory",
		"<memory model='virtio-mem'/>":                       "Declare it with devices.virtio_mem.",
		"<memory model='dimm'/>":                             "Declare it with memory.",
		"<console type='pty'/>":                              "devices.serials",
		"<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>": "guest_agent",
		"<smartcard mode='passthrough' type='spicevmc'/>":                                      "devices.smartcard",
		"<redirdev bus='usb' type='spicevmc'/>":                                                "devices.redirdevs",
	} {
		problems := Spec{ExtraDevices: map[string]string{"a": xml}}.Validate()
		if len(problems) != 1 || problems[0].Path != "extra_device_xml.a" || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v, want %q", xml, problems, want)
		}
	}
	if problems := (Spec{ExtraDevices: map[string]string{"a b": "<hub type='usb'/>"}}).Validate(); len(problems) != 1 {
		t.Errorf("a key with a space: %v", problems)
	}
}
