package libvirt

import "testing"

// TestGuestDevices_tellsWhatIsMissingFromWhatIsUnknown: an old libvirt says nothing of a device that it may well have.
func TestGuestDevices_tellsWhatIsMissingFromWhatIsUnknown(t *testing.T) {
	t.Parallel()
	devices, err := parseGuestDevices(`<domainCapabilities><devices><rng supported="no"/>
  <tpm supported="yes"><enum name="backendModel"><value>passthrough</value></enum></tpm></devices>
  </domainCapabilities>`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		device, enum, value string
		has, known          bool
	}{
		{"tpm", "backendModel", "passthrough", true, true},
		{"tpm", "backendModel", "emulator", false, true},
		{"tpm", "backendVersion", "2.0", false, false},
		{"rng", "model", "virtio", false, true},
		{"panic", "model", "isa", false, false},
	} {
		has, known := devices.Has(test.device, test.enum, test.value)
		if has != test.has || known != test.known {
			t.Errorf("%v: %v, %v", test, has, known)
		}
	}
	if _, err := parseGuestDevices("<"); err == nil {
		t.Error("no error")
	}
}
