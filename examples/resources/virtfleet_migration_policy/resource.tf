# For every VM that no other policy selects: the network has other users.
resource "virtfleet_migration_policy" "all" {
  name              = "all"
  migration_options = { bandwidth = "500Mi" }
}

# Production moves at full speed. Guests that write too fast are slowed down.
resource "virtfleet_migration_policy" "prod" {
  name     = "prod"
  selector = { labels = { tier = "prod" } }

  migration_options = {
    bandwidth           = "2Gi"
    allow_auto_converge = true
    max_downtime        = "300ms"
  }
}

# The databases of production write faster than can be copied. Two labels win over one.
resource "virtfleet_migration_policy" "prod_db" {
  name     = "prod-db"
  selector = { labels = { tier = "prod", app = "db" } }

  migration_options = {
    bandwidth                  = "2Gi"
    allow_post_copy            = true
    completion_timeout_per_gib = "60s"
  }
}
