package lease

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// UsagePrefix begins the usage id of the secret that is a lease; its name follows.
const UsagePrefix = "virtfleet:lock:"

// record is the secret's value, for people and for those who wait.
type record struct {
	Owner   string    `json:"owner"`
	Purpose string    `json:"purpose"`
	Since   time.Time `json:"since"`
	Beat    int       `json:"beat"`
}

// encode can't fail: there is nothing in a record that JSON doesn't have.
func (r record) encode() []byte {
	value, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}

	return value
}

// Holder says who holds a lease, as far as it says it: "<owner> is <purpose> it since <time>".
func Holder(s libvirt.Secret) string {
	var r record
	if err := json.Unmarshal(s.Value, &r); err != nil {
		return "another run is changing it"
	}

	return fmt.Sprintf("%s is %s it since %s", r.Owner, r.Purpose, r.Since.Format(time.RFC3339))
}
