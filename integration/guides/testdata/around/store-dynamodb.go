package around

var store *dynamostore.Store
