package libvirt

import (
	"errors"
	"testing"

	golibvirt "libvirt.org/go/libvirt"
)

// A volume is tried again where qemu-img gave up because the host was busy, not without end, and not after any other
// error.
func TestTryVolume(t *testing.T) {
	t.Parallel()
	chance := golibvirt.Error{
		Code: golibvirt.ERR_INTERNAL_ERROR, Message: "qemu-img: /a: Unable to get accurate CPU usage: try again",
	}
	full := golibvirt.Error{Code: golibvirt.ERR_INTERNAL_ERROR, Message: "qemu-img: /a: No space left on device"}
	for name, test := range map[string]struct {
		errs  []error
		tries int
	}{
		"at once":         {[]error{nil}, 1},
		"at the third":    {[]error{chance, chance, nil}, 3},
		"never":           {[]error{chance, chance, chance, chance, nil}, volumeTries},
		"another error":   {[]error{full, nil}, 1},
		"another error 2": {[]error{chance, full, nil}, 2},
	} {
		tries := 0
		_, err := tryVolume(func() (*golibvirt.StorageVol, error) {
			tries++
			return nil, test.errs[tries-1]
		})
		if tries != test.tries || !errors.Is(err, test.errs[test.tries-1]) {
			t.Errorf("%s: %d tries, %v", name, tries, err)
		}
	}
}
