package libvirt

import (
	"slices"
	"testing"
)

// TestGuestDevices_tellsWhatIsMissingFromWhatIsUnknown: an old libvirt says nothing of a device that it may well have.
func TestGuestDevices_tellsWhatIsMissingFromWhatIsUnknown(t *testing.T) {
	t.Parallel()
	devices, err := parseGuestDevices(`<domainCapabilities><devices><rng supported="no"/>
  <tpm supported="yes"><enum name="backendModel"><value>passthrough</value></enum></tpm>
  <interface supported="yes"><enum name="backendType"><value>default</value></enum></interface></devices>
  <os supported="yes"><enum name="firmware"/><loader supported="yes"><value>/OVMF.fd</value><enum name="secure">
  <value>no</value></enum></loader></os></domainCapabilities>`)
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
		{"interface", "backendType", "passt", false, true},
		{"os", "firmware", "efi", false, true},
		{"loader", "secure", "yes", false, true},
		{"loader", "secure", "no", true, true},
	} {
		has, known := devices.Has(test.device, test.enum, test.value)
		if has != test.has || known != test.known {
			t.Errorf("%v: %v, %v", test, has, known)
		}
	}
	const listed = `<launchSecurity supported="yes"><enum name="sectype"><value>sev</value></enum></launchSecurity>`
	for document, has := range map[string]bool{
		`<sev supported="no"/><s390-pv supported="no"/>`:        false,
		`<sev supported="yes"/><s390-pv supported="no"/>`:       true,
		`<sev supported="no"/><launchSecurity supported="no"/>`: false,
		listed: true,
	} {
		devices, err := parseGuestDevices("<domainCapabilities><features>" + document + "</features></domainCapabilities>")
		if got, known := devices.Has("launchSecurity", "sectype", "sev"); err != nil || got != has || !known {
			t.Errorf("%s: %v %v %v", document, got, known, err)
		}
	}
	if _, err := parseGuestDevices("<"); err == nil {
		t.Error("no error")
	}
}

// TestGuestDevices_cpuModels: a model that the host's CPU lacks features for isn't one that a guest can have.
func TestGuestDevices_cpuModels(t *testing.T) {
	t.Parallel()
	devices, err := parseGuestDevices(`<domainCapabilities><cpu><mode name="host-model" supported="yes">
  <model fallback="forbid">Penryn</model></mode><mode name="custom" supported="yes"><model usable="yes">Nehalem</model>
  <model usable="no">EPYC</model><model usable="unknown">athlon</model></mode></cpu></domainCapabilities>`)
	if want := []string{"Nehalem", "athlon"}; err != nil || !slices.Equal(devices.Values("cpu", "model"), want) {
		t.Errorf("%q, %v", devices.Values("cpu", "model"), err)
	}
}

// TestGuestDevices_maxGuests: SEV and SEV-ES have slots of their own.
func TestGuestDevices_maxGuests(t *testing.T) {
	t.Parallel()
	const sev = `<domainCapabilities><features><sev supported="yes"><cbitpos>47</cbitpos>
  <maxGuests>59</maxGuests><maxESGuests>450</maxESGuests></sev></features></domainCapabilities>`
	for document, want := range map[string][2]int{sev: {59, 450}, "<domainCapabilities/>": {}} {
		devices, err := parseGuestDevices(document)
		if err != nil {
			t.Fatal(err)
		}
		for i, encryptedState := range []bool{false, true} {
			if got, known := devices.MaxGuests(encryptedState); got != want[i] || known != (want[i] > 0) {
				t.Errorf("%d, %t", got, known)
			}
		}
	}
}
