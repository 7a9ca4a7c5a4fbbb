package domain

import "testing"

// TestGraphics_spicePort: a SPICE server that is declared to listen is given a port, which libvirt gives by itself to
// VNC servers only. Without one, a definition doesn't listen, whatever it says.
func TestGraphics_spicePort(t *testing.T) {
	t.Parallel()
	for name, graphics := range map[string]string{
		"none":          `type="spice" autoport="no"`,
		"address":       `type="spice" autoport="yes"`,
		"address, 5901": `type="spice" autoport="no" port="5901"`,
		"address, TLS":  `type="spice" autoport="no" tlsPort="5902"`,
		"address, VNC":  `type="vnc" port="-1"`,
	} {
		values := parse(t, `<domain><devices><graphics `+graphics+`><listen type="address" address="127.0.0.1"/></graphics>
  </devices></domain>`).Spec().Values
		want := "address"
		if name == "none" {
			want = "none"
		}
		got, address := values["devices.graphics.listen"], values["devices.graphics.address"]
		if got != want || (address != "") != (want == "address") {
			t.Errorf("%s: it listens at %q: %v", name, got, values)
		}
	}
	for _, port := range []string{"", Auto, "5901"} {
		vm := Spec{Name: "a", Type: "qemu", Arch: "x86_64", Memory: Memory{Size: new(uint64(64 << 20))}, Values: Values{
			"devices.graphics.type": "spice", "devices.graphics.listen": "address", "devices.graphics.port": port,
		}}
		d, err := New(vm, "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10")
		if err != nil {
			t.Fatal(err)
		}
		values, want := d.Spec().Values, port
		if port == "" {
			want = Auto
		}
		if values["devices.graphics.listen"] != "address" || values["devices.graphics.port"] != want {
			t.Errorf("port %q: %v", port, values)
		}
	}
}
