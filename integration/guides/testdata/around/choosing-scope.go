package around

type User struct{ Tenant, ID string }
