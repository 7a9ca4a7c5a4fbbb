package libvirt

import (
	"errors"
	"testing"

	golibvirt "libvirt.org/go/libvirt"
)

// An encrypted volume is tried again where qemu-img gave up, which it does by chance on a busy host: not without end,
// and not after any other error. Another volume isn't: copying its content may have taken long.
func TestTryVolume(t *testing.T) {
	t.Parallel()
	failed := golibvirt.Error{Code: golibvirt.ERR_INTERNAL_ERROR}
	exists := golibvirt.Error{Code: golibvirt.ERR_STORAGE_VOL_EXIST}
	for name, test := range map[string]struct {
		plain bool
		errs  []error
		tries int
	}{
		"at once":         {errs: []error{nil}, tries: 1},
		"at the third":    {errs: []error{failed, failed, nil}, tries: 3},
		"never":           {errs: []error{failed, failed, failed, failed, nil}, tries: volumeTries},
		"another error":   {errs: []error{exists, nil}, tries: 1},
		"another error 2": {errs: []error{failed, exists, nil}, tries: 2},
		"not encrypted":   {plain: true, errs: []error{failed, nil}, tries: 1},
	} {
		tries := 0
		_, err := tryVolume(!test.plain, func() (*golibvirt.StorageVol, error) {
			tries++
			return nil, test.errs[tries-1]
		})
		if tries != test.tries || !errors.Is(err, test.errs[test.tries-1]) {
			t.Errorf("%s: %d tries, %v", name, tries, err)
		}
	}
}
