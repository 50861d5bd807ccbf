// npm install relay-runtime relay-compiler; npx relay-compiler; node src/page.js
import relay from "relay-runtime";
import newest from "./__generated__/pageNewestQuery.graphql.js";

const { Environment, Network, RecordSource, Store, fetchQuery, graphql } = relay;

const network = Network.create(async (operation, variables) => {
  const response = await fetch("http://127.0.0.1:8080/graphql/persisted", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ documentId: operation.id, variables }),
  });
  return response.json();
});
const environment = new Environment({ network, store: new Store(new RecordSource()) });

// The compiler finds the query here and writes ./__generated__ and persisted.json.
const query = () => graphql`
  query pageNewestQuery($limit: Int) {
    posts(limit: $limit) { title author { name } }
  }
`;

const data = await fetchQuery(environment, newest, { limit: 2 }).toPromise();
console.log(data.posts);
